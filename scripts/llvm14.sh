#!/usr/bin/env bash
# llvm14.sh TOOL: prints the clang-format or clang-tidy that decides, which is version 14's, since each version formats
# and finds something else. Exits 1 with a word where there is none: then nothing is decided.
for tool in "$1-14" "$1"; do
  if [[ $("$tool" --version 2>/dev/null) == *"version 14."* ]]; then
    echo "$tool"
    exit
  fi
done
echo "no $1 of version 14 here (Debian 12 and Ubuntu 24.04 have it)" >&2
exit 1
