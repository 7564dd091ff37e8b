# SPDX-License-Identifier: Apache-2.0
"""A step between GPUs without a mailbox: F.linear, NCCL's all-gather, add; a process a GPU.

  peers_nccl.py --output FILE [--rows LIST]

Sizes as of `barewarp bench step --mode peers --tp GPUS --hidden 896*GPUS`.  Two chains in CUDA
graphs, over weights that leave the L2: all of it, and all-gather + add alone.  Results are
compared with float64 first.  The time of a replay is the slowest rank's.
"""
import argparse
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import timing

LATENT, SHARD, LAUNCHES = 3584, 896, 192


def slowest(graph, launches):
    """Median over replays of the slowest rank's time."""
    times = []
    for i in range(timing.WARM_UP + timing.REPLAYS):
        dist.barrier()
        torch.cuda.synchronize()
        time = torch.tensor([timing.replay(graph, launches)], device="cuda", dtype=torch.float64)
        dist.all_reduce(time, dist.ReduceOp.MAX)
        if i >= timing.WARM_UP:
            times.append(float(time))
    return timing.summary(times)


def rank_main(rank, world, port, rows, output):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=world)
    hidden = SHARD * world
    everyone = torch.Generator(device="cuda").manual_seed(1)  # the same on all ranks
    weight = torch.randn(hidden, LATENT, device="cuda", generator=everyone).bfloat16()
    mine = weight[rank * SHARD:(rank + 1) * SHARD].contiguous()
    count = timing.rotation(mine.numel() * 2, rank)
    every = [mine] + [mine[torch.randperm(SHARD, device="cuda")] for _ in range(count - 1)]
    peers = []
    for m in rows:
        a = torch.randn(m, LATENT, device="cuda", generator=everyone).bfloat16() / LATENT**0.5
        shared = torch.randn(m, hidden, device="cuda", generator=everyone).bfloat16()
        parts = torch.empty(world, m, SHARD, dtype=torch.bfloat16, device="cuda")
        out = torch.empty(m, hidden, dtype=torch.bfloat16, device="cuda")
        part = torch.empty(m, SHARD, dtype=torch.bfloat16, device="cuda")

        def gather_add(y):
            dist.all_gather_into_tensor(parts, y)
            torch.add(parts.transpose(0, 1), shared.view(m, world, SHARD),
                      out=out.view(m, world, SHARD))

        def whole(w):
            gather_add(F.linear(a, w))

        out.fill_(float("nan"))
        whole(mine)
        truth = (a.double() @ weight.double().t()).bfloat16().double() + shared.double()
        error = (out.double() - truth).abs()
        bound = truth.abs() * 2**-7 + truth.abs().mean() * 2**-7
        worst = float((error / bound).max())
        if not worst <= 1:
            raise RuntimeError(f"off by {worst:.2f} times the bound")
        part.copy_(F.linear(a, mine))
        for name, what, call, operands in (
            ("linear_allgather_add", "F.linear, NCCL all-gather, add", whole, every),
            ("allgather_add", "NCCL all-gather and add alone", gather_add, [part])):
            calls = [lambda o=o: call(o) for o in operands] * -(-LAUNCHES // len(operands))
            time = slowest(timing.capture(calls), len(calls))
            peers.append(dict(family="step", peer=name, what=what, rows=m, tp=world,
                              latent=LATENT, hidden=hidden, us=time,
                              judged=f"within {worst:.2f} of the bound"))
            if rank == 0:
                print(name, m, world, f"{time['median']:.2f} us", flush=True)
    if rank == 0:
        with open(output, "w") as file:
            json.dump(dict(device=torch.cuda.get_device_name(), torch=torch.__version__,
                           nccl=".".join(map(str, torch.cuda.nccl.version())), peers=peers), file,
                      indent=1)
    dist.barrier()
    torch.cuda.synchronize()
    os._exit(0)  # captured collectives make the orderly end of NCCL hang at times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--rows", type=lambda t: [int(n) for n in t.split(",")],
                        default=[1, 2, 4, 8])
    parser.add_argument("--port", type=int, default=29511)
    o = parser.parse_args()
    world = torch.cuda.device_count()
    if world < 2:
        print("peers_nccl.py: two GPUs are needed", file=sys.stderr)
        return 1
    mp.spawn(rank_main, args=(world, o.port, o.rows, o.output), nprocs=world)
    return 0


if __name__ == "__main__":
    sys.exit(main())
