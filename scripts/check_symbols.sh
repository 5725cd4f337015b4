#!/usr/bin/env bash
# check_symbols.sh PREFIX: an installed library defines no operator new or delete, so that it changes nothing in the
# programs that link it.
set -euo pipefail
found=0
for library in $(find "$1" -name 'libplimsoll*.a'); do
  found=1
  # _Znw, _Zna, _Zdl and _Zda are operator new, new[], delete and delete[].
  defined=$(nm --defined-only "$library" 2>/dev/null | grep -E ' _Z(nw|na|dl|da)[a-zA-Z]' || true)
  [ -z "$defined" ] || { echo "$library defines global operators:" >&2; echo "$defined" >&2; exit 1; }
done
[ "$found" -eq 1 ] || { echo "no libplimsoll*.a below $1" >&2; exit 1; }
echo "symbols: no operator new or delete is replaced"
