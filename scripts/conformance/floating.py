# SPDX-License-Identifier: Apache-2.0
"""Floating point: f32, f64, half types, approximate functions."""
from kernel import scalar

R = "{.rn|.rz|.rm|.rp}"
RO = "[.rn|.rz|.rm|.rp]"


def make():
    f = "float"
    for op in ("add", "sub", "mul"):
        scalar(f"{op}.f32", f"{op}{RO}[.ftz][.sat].f32", "f32", "f32 f32", f)
        scalar(f"{op}.f64", f"{op}{RO}.f64", "f64", "f64 f64", f)
    for op in ("fma", "mad"):
        scalar(f"{op}.f32", f"{op}{R}[.ftz][.sat].f32", "f32", "f32 f32 f32", f)
        scalar(f"{op}.f64", f"{op}{R}.f64", "f64", "f64 f64 f64", f)
    scalar("div.f32", f"div{R}[.ftz].f32", "f32", "f32 f32", f)
    scalar("div.f64", f"div{R}.f64", "f64", "f64 f64", f)
    for op in ("rcp", "sqrt"):
        scalar(f"{op}.f32", f"{op}{R}[.ftz].f32", "f32", "f32", f)
        scalar(f"{op}.f64", f"{op}{R}.f64", "f64", "f64", f)
    scalar("minmax.f32", "{min|max}[.ftz][.NaN].f32", "f32", "f32 f32", f)
    scalar("minmax.xorsign.abs.f32", "{min|max}[.ftz][.NaN].xorsign.abs.f32", "f32", "f32 f32", f)
    scalar("minmax.f64", "{min|max}.f64", "f64", "f64 f64", f)
    scalar("neg.f32", "{neg|abs}[.ftz].f32", "f32", "f32", f)
    scalar("neg.f64", "{neg|abs}.f64", "f64", "f64", f)
    for t in ("f32", "f64"):
        scalar(f"copysign.{t}", f"copysign.{t}", t, f"{t} {t}", f)
        scalar(f"testp.{t}",
               f"testp{{.finite|.infinite|.number|.notanumber|.normal|.subnormal}}.{t}", "p", t, f)
    half()
    approx()


def half():
    f = "half and packed float"
    for t in ("f16", "f16x2"):
        for op in ("add", "sub", "mul"):
            scalar(f"{op}.{t}", f"{op}[.rn][.ftz][.sat].{t}", t, f"{t} {t}", f)
        scalar(f"fma.{t}", f"fma.rn[.ftz][.sat|.relu].{t}", t, f"{t} {t} {t}", f)
        scalar(f"minmax.{t}", f"{{min|max}}[.ftz][.NaN].{t}", t, f"{t} {t}", f)
        scalar(f"minmax.xorsign.abs.{t}", f"{{min|max}}[.ftz][.NaN].xorsign.abs.{t}", t, f"{t} {t}", f)
        scalar(f"neg.{t}", f"{{neg|abs}}[.ftz].{t}", t, t, f)
    for t in ("bf16", "bf16x2"):
        for op in ("add", "sub", "mul"):
            scalar(f"{op}.{t}", f"{op}[.rn].{t}", t, f"{t} {t}", f)
        scalar(f"fma.{t}", f"fma.rn[.relu].{t}", t, f"{t} {t} {t}", f)
        scalar(f"minmax.{t}", f"{{min|max}}[.NaN].{t}", t, f"{t} {t}", f)
        scalar(f"minmax.xorsign.abs.{t}", f"{{min|max}}[.NaN].xorsign.abs.{t}", t, f"{t} {t}", f)
        scalar(f"neg.{t}", f"{{neg|abs}}.{t}", t, t, f)


def approx():
    """Functions that the hardware approximates: judged within the error that the ISA states.

    `approx KIND BITS`: ulp: so many units in the last place of the true value; abs: an
    absolute error of 2^-BITS; rel: a relative error of 2^-BITS.
    """
    f = "approximate functions"

    def one(name, pattern, t, bound, args=None, **kw):
        scalar(name, pattern, t, args or t, f, directives=[f"approx {bound}"], grid=16, **kw)

    one("div.approx.f32", "div.approx[.ftz].f32", "f32", "div 2", "f32 f32")
    one("div.full.f32", "div.full[.ftz].f32", "f32", "divfull 2", "f32 f32")
    one("rcp.approx.f32", "rcp.approx[.ftz].f32", "f32", "ulp 1")
    one("sqrt.approx.f32", "sqrt.approx[.ftz].f32", "f32", "rel 23")
    one("rsqrt.approx.f32", "rsqrt.approx[.ftz].f32", "f32", "rel 22.9")
    one("sin.approx.f32", "sin.approx[.ftz].f32", "f32", "trig 20.5")
    one("cos.approx.f32", "cos.approx[.ftz].f32", "f32", "trig 20.5")
    one("ex2.approx.f32", "ex2.approx[.ftz].f32", "f32", "ulp 2")
    one("lg2.approx.f32", "lg2.approx[.ftz].f32", "f32", "lg2 22")
    one("tanh.approx.f32", "tanh.approx.f32", "f32", "rel 10.987")
    one("rcp.approx.ftz.f64", "rcp.approx.ftz.f64", "f64", "high 20")
    one("rsqrt.approx.ftz.f64", "rsqrt.approx.ftz.f64", "f64", "high 20")
    one("rsqrt.approx.f64", "rsqrt.approx.f64", "f64", "rel 20")
    for t in ("f16", "f16x2"):
        one(f"ex2.approx.{t}", f"ex2.approx.{t}", t, "half 9.9")
        one(f"tanh.approx.{t}", f"tanh.approx.{t}", t, "half 10.987")
    for t in ("bf16", "bf16x2"):
        one(f"ex2.approx.ftz.{t}", f"ex2.approx.ftz.{t}", t, "half 7")
        one(f"tanh.approx.{t}", f"tanh.approx.{t}", t, "half 8")
