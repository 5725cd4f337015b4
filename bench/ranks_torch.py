"""Training steps of a model by PyTorch's DistributedDataParallel over gloo, one thread a rank: the peer of
bench/ranks.cc.

usage: ranks_torch.py CASE FORMAT RANKS STEPS

CASE is one of step_torch.py's, its batch is of all ranks together, FORMAT contiguous or channels_last. Prints a line of
JSON: milliseconds of each step of rank 0, and the most memory that it held.
"""
import json
import os
import socket
import subprocess
import sys
import time

import step_torch
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start_ranks(ranks):
    """The other arguments are the same; rank 0 prints."""
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks),
                       OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    started = [subprocess.Popen([sys.executable] + sys.argv, env=dict(environment, RANK=str(rank)))
               for rank in range(ranks)]
    return max(process.wait() for process in started)


def train(case, layout, steps):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(1)
    make, data, loss_of = step_torch.CASES[case]
    model, (x, target) = make(), data()
    count = len(x) // ranks
    each = len(target) // ranks
    x, target = x[rank * count:(rank + 1) * count].clone(), target[rank * each:(rank + 1) * each].clone()
    if layout == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    run = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    optimizer = step_torch.adam(model.parameters())
    taken = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(run(x), target).backward()
        optimizer.step()
        taken.append((time.perf_counter() - start) * 1e3)
    if rank == 0:
        print(json.dumps({"ms": taken, "peak_bytes": step_torch.status_bytes("VmHWM"),
                          "versions": step_torch.versions()}), flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    name, memory_format, count_of_ranks, count_of_steps = sys.argv[1:5]
    if "RANK" not in os.environ:
        sys.exit(start_ranks(int(count_of_ranks)))
    train(name, memory_format, int(count_of_steps))
