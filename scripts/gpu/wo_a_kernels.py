# SPDX-License-Identifier: Apache-2.0
"""The parts of an unfused WO-A in Triton: before and after the matrix product, and a grouped
product that scales blocks of 32 as MXFP8 says (Hopper has no such instruction: Triton widens
to bf16)."""
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_of(largest):
    """The ue8m0 of largest/448, rounded up, and the factor that takes values there."""
    bits = (largest * (1.0 / 448.0)).to(tl.int32, bitcast=True)
    e = (bits + 0x7FFFFF) >> 23
    inverse = tl.where(e == 0, 0, (254 - e) << 23).to(tl.float32, bitcast=True)
    return e, inverse


@triton.jit
def _before(x, positions, rope, out, scale, row_scale, heads, x_stride, MODE: tl.constexpr):
    """One head of one token: rotate back, quantize.  MODE 0: to e4m3 and ue8m0 per 32; 1: the
    same, but written as the bf16 that it stands for; 2: rotated only, bf16, and its largest
    value into row_scale (one for a token and group, of heads // row groups)."""
    t, h = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, 512)
    row = x + t * x_stride + h * 512
    v = tl.load(row + k).to(tl.float32)
    other = tl.load(row + (k ^ 1)).to(tl.float32)
    rotary = k >= 448
    pair = tl.where(rotary, (k - 448) // 2, 0)
    at = rope + tl.load(positions + t) * 64 + pair
    c, s = tl.load(at), tl.load(at + 32)
    product = other * s
    turned = tl.fma(v, c, tl.where(k % 2 == 0, product, -product))
    v = tl.where(rotary, turned, v)
    to = (t * heads + h) * 512 + k
    if MODE == 2:
        tl.store(out + to, v.to(tl.bfloat16))
        tl.store(row_scale + t * heads + h, tl.max(tl.abs(v), 0))
    else:
        blocks = tl.reshape(v, (16, 32))
        e, inverse = _scale_of(tl.maximum(tl.max(tl.abs(blocks), 1), 1e-10))
        q = tl.reshape(blocks * inverse[:, None], (512,)).to(tl.float8e4nv)
        if MODE == 0:
            tl.store(out + to, q)
            tl.store(scale + (t * heads + h) * 16 + tl.arange(0, 16), e.to(tl.uint8))
        else:
            factor = (e << 23).to(tl.float32, bitcast=True)
            wide = tl.reshape(q.to(tl.float32), (16, 32)) * factor[:, None]
            tl.store(out + to, tl.reshape(wide, (512,)).to(tl.bfloat16))


@triton.jit
def _row_quantize(x, largest, out, scale, heads, pitch, HPG: tl.constexpr):
    """e4m3 with one f32 scale for a token and group; out [G, pitch, HPG * 512]."""
    t, g = tl.program_id(0), tl.program_id(1)
    top = tl.max(tl.load(largest + t * heads + g * HPG + tl.arange(0, HPG)), 0)
    s = tl.maximum(top, 1e-10) / 448.0
    tl.store(scale + g * pitch + t, s)
    for h in range(HPG):
        k = tl.arange(0, 512)
        v = tl.load(x + (t * heads + g * HPG + h) * 512 + k).to(tl.float32)
        tl.store(out + ((g * pitch + t) * HPG + h) * 512 + k, (v / s).to(tl.float8e4nv))


@triton.jit
def _after(y, q, qs, N, pitch, R, PARTS: tl.constexpr):
    """128 outputs of a token: quantize per 32 into q and the F8_128x4 tile of qs.  y is
    [PARTS, G, pitch, R]: f32 parts that are still to be summed, or bf16 if PARTS is 1."""
    t, j = tl.program_id(0), tl.program_id(1)
    n = j * 128 + tl.arange(0, 128)
    group = j * 128 // R
    at = (group * pitch + t) * R + n - group * R
    v = tl.load(y + at).to(tl.float32)
    for p in tl.static_range(1, PARTS):
        v += tl.load(y + p * pitch * N + at)
    v = v.to(tl.bfloat16).to(tl.float32)
    blocks = tl.reshape(v, (4, 32))
    e, inverse = _scale_of(tl.max(tl.abs(blocks), 1))
    tl.store(q + t * N + n, tl.reshape(blocks * inverse[:, None], (128,)).to(tl.float8e4nv))
    place = j * 512 + (t % 32) * 16 + (t // 32) * 4 + tl.arange(0, 4)
    tl.store(qs + place, e.to(tl.uint8))


@triton.jit
def _grouped_mx(a, a_scale, w, w_scale, y, tokens, heads, R, K: tl.constexpr, BM: tl.constexpr,
                BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """y[part, g, t, n] = the part's share of K of a . w, both e4m3 with a ue8m0 for 32."""
    n0, g, part = tl.program_id(0) * BN, tl.program_id(1), tl.program_id(2)
    m, n = tl.arange(0, BM), n0 + tl.arange(0, BN)
    live = m[:, None] < tokens
    row = tl.minimum(m, tokens - 1)[:, None]  # rows beyond repeat the last one
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    first = part * (K // PARTS)
    for k0 in range(first, first + K // PARTS, BK):
        k, b = k0 + tl.arange(0, BK), k0 // 32 + tl.arange(0, BK // 32)
        at = tl.load(a + row * heads * 512 + g * K + k[None, :])
        sa = tl.load(a_scale + row * heads * 16 + g * (K // 32) + b[None, :])
        wt = tl.load(w + (g * R + n[None, :]) * K + k[:, None])
        sw = tl.load(w_scale + (g * R + n[:, None]) * (K // 32) + b[None, :])
        acc = tl.dot_scaled(at, sa, "e4m3", wt, sw, "e4m3", acc)
    to = ((part * tl.num_programs(1) + g) * tokens + m[:, None]) * R + n[None, :]
    tl.store(y + to, acc, mask=live)


def before(x, positions, rope, out, scale, row_scale, mode):
    tokens, heads, _ = x.shape
    _before[(tokens, heads)](x, positions, rope, out, scale, row_scale, heads, x.stride(0),
                             MODE=mode, num_warps=4)


def row_quantize(x, largest, out, scale, groups):
    tokens, heads, _ = x.shape
    _row_quantize[(tokens, groups)](x, largest, out, scale, heads, out.shape[1],
                                    HPG=heads // groups, num_warps=4)


def after(y, q, qs, parts, groups):
    tokens, outputs = q.shape
    _after[(tokens, outputs // 128)](y, q, qs, outputs, y.shape[-2], outputs // groups, PARTS=parts,
                                     num_warps=1)


def grouped_mx(a, a_scale, w, w_scale, y, groups, parts, bn, bk, warps):
    tokens, heads, _ = a.shape
    rows, k = w.shape[0] // groups, w.shape[1]
    bm = max(16, triton.next_power_of_2(tokens))
    _grouped_mx[(rows // bn, groups, parts)](a, a_scale, w, w_scale, y, tokens, heads, rows, K=k,
                                             BM=bm, BN=bn, BK=bk, PARTS=parts, num_warps=warps)
