#!/usr/bin/env bash
# Runs a command as ranks of MPI on two "hosts": network namespaces with a host name and an address of their own, and a
# link between them. mpirun is on the first; on the second it starts its daemon by this script, in place of ssh.
#
# usage: two_hosts.sh RANKS_OF_EACH COMMAND..
#
# LINK in the environment shapes the link: 1gbit. The status is 77 where namespaces are not allowed.
set -euo pipefail

on_host() {  # NUMBER COMMAND..
  local number=$1
  shift
  exec nsenter --net="/run/netns/${PLIMSOLL_HOSTS}_$number" \
    unshare --uts sh -c 'hostname "$0" && exec "$@"' "plimsoll-host-$number" "$@"
}

if [ -n "${PLIMSOLL_HOSTS:-}" ]; then  # as mpirun calls it: ADDRESS COMMAND..
  shift
  on_host 2 sh -c "$*"
fi

skip() {
  echo "skipped: $1"
  exit 77
}

export PLIMSOLL_HOSTS=plimsoll_$$
remove() {
  for number in 1 2; do ip netns delete "${PLIMSOLL_HOSTS}_$number" 2>/dev/null || true; done
}
trap remove EXIT

command -v ip >/dev/null || skip "there is no ip: install iproute2"
for number in 1 2; do
  ip netns add "${PLIMSOLL_HOSTS}_$number" 2>/dev/null || skip "network namespaces are not allowed here"
done
(on_host 1 true) 2>/dev/null || skip "namespaces of host names are not allowed here"
ip -netns "${PLIMSOLL_HOSTS}_1" link add link0 type veth peer name link0 netns "${PLIMSOLL_HOSTS}_2" ||
  skip "there are no veth links here"
for number in 1 2; do
  ip -netns "${PLIMSOLL_HOSTS}_$number" address add "10.98.0.$number/24" dev link0
  ip -netns "${PLIMSOLL_HOSTS}_$number" link set link0 up
  ip -netns "${PLIMSOLL_HOSTS}_$number" link set lo up
  [ -z "${LINK:-}" ] ||
    nsenter --net="/run/netns/${PLIMSOLL_HOSTS}_$number" tc qdisc add dev link0 root tbf rate "$LINK" burst 256kb latency 20ms
done

ranks=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
(on_host 1 mpirun --host "10.98.0.1:$ranks,10.98.0.2:$ranks" --map-by node --bind-to none \
  --mca plm_rsh_agent "$(realpath "$0")" --mca btl tcp,self,vader --mca btl_vader_single_copy_mechanism none \
  --mca btl_tcp_if_include link0 --mca oob_tcp_if_include link0 "$@")
