#!/usr/bin/env bash
# clang-tidy on the sources that changed since the branch left main, or in the last commits where this is main; --all
# for all sources. Headers are checked through the sources that include them.
set -euo pipefail
files() {
  if [ "${1:-}" = --all ]; then
    git ls-files 'plimsoll/*.cc' 'cli/*.cc'
    return
  fi
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-list --first-parent --max-count=4 HEAD | tail -1)
  fi
  git diff --name-only --diff-filter=d "$base" -- 'plimsoll/*.cc' 'cli/*.cc'
}
mapfile -t list < <(files "${1:-}")
[ ${#list[@]} -gt 0 ] || { echo "tidy: nothing changed"; exit 0; }
printf '%s\n' "${list[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet 2>/dev/null
echo "tidy: ${#list[@]} files clean"
