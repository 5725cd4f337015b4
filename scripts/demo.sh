#!/usr/bin/env bash
# The main job, shown on what the repository carries: scripts/demo.sh PATH_TO_PLIMSOLL.
set -euo pipefail
plimsoll=$1
show() {
  printf '\n\033[1m$ plimsoll %s\033[0m\n' "$*"
  "$plimsoll" "$@"
}
note() { printf '\n%s\n' "$*"; }

note "1. Predict: what one training step takes, before anything runs. This CNN on 256 images of 1024x1024 is the one
   that dies on a 16 GiB machine; nothing is allocated to know that."
show estimate p11 --batch 256 --device none

note "2. Fit and run: the same step of the same 256 images, trained in 2 GiB, the whole process included."
show train p11 --batch 256 --budget 2GiB --steps 2 --lr 1e-7

note "3. Place: a recorded PyTorch run of a wide CNN under PyTorch's own allocator, then under ours."
show replay tests/data/traces/widecnn_b32.csv.gz --policy torch
show replay tests/data/traces/widecnn_b32.csv.gz --policy pool

note "4. Explain: a snapshot of a PyTorch run whose memory grew until it died."
show explain tests/data/oom/leak.pickle.gz || true
