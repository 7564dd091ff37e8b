# SPDX-License-Identifier: Apache-2.0
"""The driver through cuda-python's bindings, which know nothing of barewarp.

    python3 client.py FOLDER [SEED]

FOLDER has vector_add.ptx, reduction.ptx and gemm.ptx.  On every device: c = a + b, the sum of x
and d = p q, by calls on two streams that an event orders, then once more by a graph captured from
them and launched on new numbers.  Results are compared bit for bit: a sum of two floats rounds once
(in Python a double, then a float, which is the same); the other numbers are small integers, of
which all sums and products are exact in any order.  Prints "N comparisons on D devices, 0 wrong".
"""
import array
import ctypes
import random
import struct
import sys

from cuda.bindings import driver

GUARD = 64  # words on each side of a buffer
CANARY, POISON = 0x5AC3A53C, 0xFFFFFFFF
CTAS, ADDERS, REDUCERS, TILE = 3, 128, 256, 16
comparisons = 0


def cu(answer):
    """The results of a call; an exception if it failed."""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"seed {SEED}: the driver answered {answer[0].name}")
    return answer[1] if len(answer) == 2 else answer[1:]


def same(what, device, got, want):
    """Compares 32-bit words."""
    global comparisons
    comparisons += 1
    if len(got) != len(want):
        sys.exit(f"seed {SEED}: wrong: device {device}, {what} has {len(got)} words, not {len(want)}")
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w:
            sys.exit(f"seed {SEED}: wrong: device {device}, {what}[{i}] is {g:#010x}, not {w:#010x}")


def bits(floats):
    return list(struct.unpack(f"{len(floats)}I", struct.pack(f"{len(floats)}f", *floats)))


class Buffer:
    """`count` words on the device and on the host, the device's between canaries."""

    def __init__(self, count):
        self.count = count
        self.host = array.array("I", [POISON] * count)
        self.whole = cu(driver.cuMemAlloc(4 * (count + 2 * GUARD)))
        self.device = driver.CUdeviceptr(int(self.whole) + 4 * GUARD)
        cu(driver.cuMemsetD32(self.whole, CANARY, count + 2 * GUARD))
        cu(driver.cuMemsetD32(self.device, POISON, count))
        cu(driver.cuCtxSynchronize())  # a memset is not over when it returns

    def fill(self, floats):
        self.host[:] = array.array("I", bits(floats))

    def upload(self, stream):
        cu(driver.cuMemcpyHtoDAsync(self.device, self.host.buffer_info()[0], 4 * self.count, stream))

    def download(self, stream):
        cu(driver.cuMemcpyDtoHAsync(self.host.buffer_info()[0], self.device, 4 * self.count, stream))

    def free(self, device):
        whole = array.array("I", [0] * (self.count + 2 * GUARD))
        cu(driver.cuMemcpyDtoH(whole.buffer_info()[0], self.whole, 4 * len(whole)))
        same("canaries", device, whole[:GUARD] + whole[-GUARD:], [CANARY] * (2 * GUARD))
        cu(driver.cuMemFree(self.whole))


class Device:
    def __init__(self, number, folder):
        self.number = number
        self.device = cu(driver.cuDeviceGet(number))
        cu(driver.cuCtxSetCurrent(cu(driver.cuDevicePrimaryCtxRetain(self.device))))
        self.modules, self.kernels = [], {}
        for name in ("vector_add", "reduction", "gemm"):
            with open(f"{folder}/{name}.ptx", "rb") as file:
                self.modules.append(cu(driver.cuModuleLoadData(file.read() + b"\0")))
            self.kernels[name] = cu(driver.cuModuleGetFunction(self.modules[-1], name.encode()))
        self.streams = [cu(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2)]
        self.events = [cu(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)) for _ in range(2)]

    def launch(self, name, grid, block, stream, *arguments):
        values = tuple(int(a.device) if isinstance(a, Buffer) else a for a in arguments)
        types = tuple(ctypes.c_uint64 if isinstance(a, Buffer) else ctypes.c_uint32 for a in arguments)
        cu(driver.cuLaunchKernel(self.kernels[name], *grid, *block, 0, stream, (values, types), 0))

    def close(self):
        for event in self.events:
            cu(driver.cuEventDestroy(event))
        for stream in self.streams:
            cu(driver.cuStreamDestroy(stream))
        for module in self.modules:
            cu(driver.cuModuleUnload(module))
        cu(driver.cuDevicePrimaryCtxRelease(self.device))


class Work:
    def __init__(self, draw):
        self.draw = draw
        self.m, self.n, self.k = (draw.randint(17, 40) for _ in range(3))
        self.count = draw.randint(1000, 2000)
        self.a, self.b, self.c, self.x = (Buffer(self.count) for _ in range(4))
        self.p, self.q, self.d = Buffer(self.m * self.k), Buffer(self.k * self.n), Buffer(self.m * self.n)
        self.sums, self.total = Buffer(CTAS), Buffer(1)

    def fill(self):
        real = lambda n: struct.unpack(f"{n}f", struct.pack(f"{n}f", *(self.draw.gauss(0, 4) for _ in range(n))))
        whole = lambda n: [self.draw.randint(-8, 8) for _ in range(n)]
        self.numbers = real(self.count), real(self.count), whole(self.count), whole(self.p.count), whole(self.q.count)
        for buffer, floats in zip((self.a, self.b, self.x, self.p, self.q), self.numbers):
            buffer.fill(floats)
        for buffer in (self.c, self.total, self.d):
            buffer.host[:] = array.array("I", [POISON] * buffer.count)

    def enqueue(self, device):
        """The product and the reduction on a stream each, the sum before both."""
        main, side = device.streams
        fork, join = device.events
        self.a.upload(main)
        self.b.upload(main)
        device.launch("vector_add", (CTAS, 1, 1), (ADDERS, 1, 1), main, self.a, self.b, self.c, self.count)
        cu(driver.cuEventRecord(fork, main))
        cu(driver.cuStreamWaitEvent(side, fork, 0))
        self.p.upload(side)
        self.q.upload(side)
        grid = (-(-self.n // TILE), -(-self.m // TILE), 1)
        device.launch("gemm", grid, (TILE, TILE, 1), side, self.p, self.q, self.d, self.m, self.n, self.k)
        self.d.download(side)
        cu(driver.cuEventRecord(join, side))
        self.x.upload(main)
        device.launch("reduction", (CTAS, 1, 1), (REDUCERS, 1, 1), main, self.x, self.sums, self.count)
        device.launch("reduction", (1, 1, 1), (REDUCERS, 1, 1), main, self.sums, self.total, CTAS)
        self.c.download(main)
        self.total.download(main)
        cu(driver.cuStreamWaitEvent(main, join, 0))

    def judge(self, number):
        a, b, x, p, q = self.numbers
        same("c", number, self.c.host, bits([s + t for s, t in zip(a, b)]))
        same("total", number, self.total.host, bits([sum(x)]))
        d = [
            sum(p[r * self.k + i] * q[i * self.n + c] for i in range(self.k))
            for r in range(self.m)
            for c in range(self.n)
        ]
        same("d", number, self.d.host, bits(d))

    def free(self, number):
        for buffer in (self.a, self.b, self.c, self.x, self.p, self.q, self.d, self.sums, self.total):
            buffer.free(number)


def run(number, folder, draw):
    device = Device(number, folder)
    work = Work(draw)
    main = device.streams[0]

    work.fill()
    work.enqueue(device)
    cu(driver.cuStreamSynchronize(main))
    work.judge(number)

    cu(driver.cuStreamBeginCapture(main, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    work.enqueue(device)
    graph = cu(driver.cuStreamEndCapture(main))
    ready = cu(driver.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        work.fill()
        cu(driver.cuGraphLaunch(ready, main))
        cu(driver.cuStreamSynchronize(main))
        work.judge(number)
    cu(driver.cuGraphExecDestroy(ready))
    cu(driver.cuGraphDestroy(graph))

    name = cu(driver.cuDeviceGetName(96, device.device)).split(b"\0")[0].decode()
    work.free(number)
    device.close()
    return name


SEED = int(sys.argv[2], 0) if len(sys.argv) > 2 else 1
cu(driver.cuInit(0))
devices = cu(driver.cuDeviceGetCount())
generator = random.Random(SEED)
names = [run(number, sys.argv[1], generator) for number in range(devices)]
print(f"seed {SEED}: {comparisons} comparisons on {devices} devices, 0 wrong: {names[0]}")
