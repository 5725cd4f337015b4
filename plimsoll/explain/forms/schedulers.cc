// Those who watch processes from outside: Slurm, Kubernetes and Docker, systemd, earlyoom. Most give no figures. The
// kernel's own report has a reader of its own.
#include "plimsoll/explain/line_form.h"

namespace plimsoll::explain {
namespace {

constexpr std::string_view kSlurm = "The job's memory limit was reached, and Slurm's cgroup killed a process";
constexpr std::string_view kPod = "The container's memory limit was reached, and the kernel killed its process";

constexpr LineForm slurm(std::array<std::string_view, 3> all, std::array<std::string_view, 2> none = {}) {
  return {.framework = Framework::slurm,
          .backend = Backend::cpu,
          .arena = Arena::cgroup,
          .all = all,
          .none = none,
          .says = Cause::cgroup_limit,
          .sure = Confidence::high,
          .headline = kSlurm};
}

constexpr LineForm pod(std::array<std::string_view, 3> all, std::array<std::string_view, 2> none = {}) {
  return {.framework = Framework::kubernetes,
          .backend = Backend::cpu,
          .arena = Arena::cgroup,
          .all = all,
          .none = none,
          .says = Cause::cgroup_limit,
          .sure = Confidence::high,
          .headline = kPod};
}

constexpr LineForm kForms[] = {
    slurm({"Detected ", "oom_kill event"}),
    slurm({"Detected ", "oom-kill event"}),
    slurm({"slurm", "exceeded memory limit"}),
    slurm({"slurm", "Exceeded job memory limit"}),
    slurm({"slurm", "Exceeded step memory limit"}, {"partially swapped out"}),
    slurm({"srun: error:", "Out Of Memory"}),
    slurm({"sacct", "OUT_OF_MEMORY"}, {" sacct output"}),
    slurm({"State: OUT_OF_MEMORY"}),
    slurm({"State=OUT_OF_MEMORY"}),
    slurm({"OUT_OF_MEMORY", "0:125"}),  // Slurm's exit code for it
    slurm({"CANCELLED AT ", "DUE TO MEMORY LIMIT"}),
    slurm({" OUT_OF_ME+ "}, {" sacct output"}),  // sacct's narrow column, and not a page about it
    pod({"Reason:", "OOMKilled"}),
    pod({"\"reason\":", "\"OOMKilled\""}),
    pod({"reason:OOMKilled"}),
    pod({"reason: OOMKilled"}, {"termination reason"}),  // the latter is Spark's
    pod({" OOMKilled  ", "/"}),
    pod({"was OOMKilled"}),
    pod({"OOMKilled", "exit code 137"}),
    pod({"Reason [OOMKilled]"}),
    pod({"container oom "}),  // docker events
    pod({"OOMKilled\": true"}),
    pod({"OOMKilled\":true"}),
    {.framework = Framework::kubernetes,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"System OOM encountered, victim process: "},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "The node ran out of RAM, and the kernel killed {subject}",
     .subject_front = "victim process: ",
     .subject_behind = ","},
    {.framework = Framework::kubernetes,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"The node was low on resource: memory"},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "The node's RAM was nearly full, and the kubelet evicted the pod"},
    {.framework = Framework::systemd,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"systemd-oomd", "Killed ", "due to memory "},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "systemd-oomd killed {subject}: RAM and swap were nearly full or under pressure",
     .subject_front = "Killed ",
     .subject_behind = " due to memory"},
    {.framework = Framework::systemd,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"systemd-oomd killed "},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "systemd-oomd killed a unit: RAM and swap were nearly full or under pressure"},
    {.framework = Framework::systemd,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"has been killed by the OOM killer"},
     .says = Cause::host_memory,
     .sure = Confidence::medium,
     .headline = "The kernel's out-of-memory killer ended a process of the unit: its MemoryMax or the machine's RAM"},
    {.framework = Framework::systemd,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"Failed with result 'oom-kill'"},
     .says = Cause::host_memory,
     .sure = Confidence::medium,
     .headline = "The kernel's out-of-memory killer ended the unit: its MemoryMax or the machine's RAM"},
    {.framework = Framework::systemd,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"(Result: oom-kill)"},  // systemctl status
     .says = Cause::host_memory,
     .sure = Confidence::medium,
     .headline = "The kernel's out-of-memory killer ended the unit: its MemoryMax or the machine's RAM"},
    {.framework = Framework::systemd,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"earlyoom", "sending SIG", "to process "},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "earlyoom killed a process that held {process}: RAM and swap were nearly full",
     .figures = {{{&Failure::process_bytes, "VmRSS "}}}},
};

}  // namespace

std::span<const LineForm> scheduler_forms() { return kForms; }

}  // namespace plimsoll::explain
