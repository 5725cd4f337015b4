// The reader of last resort. It knows no program, only the words in which programs say that memory was refused; it
// claims a line that reads like an error, tells which memory the words speak of, and is never sure.
#include <algorithm>
#include <cctype>
#include <span>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/hearsay.h"
#include "plimsoll/explain/line_dress.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

using Words = std::span<const std::string_view>;
constexpr size_t npos = std::string_view::npos;

// All words below are lower case.
constexpr std::string_view kRefused[] = {
    "out of memory",
    "outofmemory",
    "out_of_memory",
    "out-of-memory",
    "out of gpu memory",
    "out of device memory",
    "out of host memory",
    "out of system memory",
    "out of video memory",
    "out of virtual memory",
    "out of cuda memory",
    "out of shared memory",
    "out of heap",
    "out_of_device_memory",
    "out_of_host_memory",
    "outofdevicememory",
    "outofhostmemory",
    "out_of_resources",
    "memory exhausted",
    "memory is exhausted",
    "exhausted memory",
    "memory is overflow",
    "memory overflow",
    "memory is insufficient",
    "insufficient memory",
    "insufficient system resources",
    "not enough memory",
    "not enough gpu memory",
    "not enough device memory",
    "not enough vram",
    "not enough ram",
    "not enough free memory",
    "not enough system memory",
    "no available memory",
    "no memory available",
    "no memory is available",
    "lack of memory",
    "bad_alloc",
    "bad allocation",
    "alloc_failed",
    "malloc_fail",
    "no free memory",
    "insufficient gpu",
    "insufficient device mem",
    "insufficient vram",
};

constexpr std::string_view kScarce[] = {"insufficient ",   "not enough ", "no more ", "ran out of ",
                                        "cannot enlarge ", "short of ",   "lack of "};
constexpr std::string_view kMemoryNames[] = {"memory", "ram ", "vram", "dram"};

constexpr std::string_view kFails[] = {"fail",     "cannot",       "can't",    "can not",    "could not",
                                       "couldn't", "not possible", "unable",   "refuse",     "error",
                                       "denied",   "not be ",      "not able", "impossible", "not available"};

// What is asked for when it is memory that is allocated, and not a port or an address.
constexpr std::string_view kMemory[] = {"memory", "buffer", "byte", "malloc", "heap",     "tensor", "array",
                                        "vector", "dram",   "vram", "hbm",    "region",   "arena",  "workspace",
                                        "mib",    "gib",    " mb",  " gb",    "errno 12", "mmap",   "scratch"};

constexpr std::string_view kLimits[] = {"memory limit",
                                        "memory quota",
                                        "memory resource limit",
                                        "memory budget",
                                        "memory object allocation",
                                        "alloc size",
                                        "array size",
                                        "memory pool",
                                        "scratch memory",
                                        "memory capacity",
                                        "buffer size",
                                        "mem size",
                                        "memory threshold",
                                        "memory allotted",
                                        "memory allowed",
                                        "memory size",
                                        "arena size",
                                        "maxmemory"};
constexpr std::string_view kOver[] = {"exceed",      "reached",      "gone over", "over the",
                                      "larger than", "greater than", "more than", "not enough",
                                      "above",       "exhausted",    "too small", "not allowed"};
constexpr std::string_view kOverLargest[] = {"larger than max",      "larger than the max", "greater than max",
                                             "greater than the max", "exceeded max",        "exceeds max",
                                             "exceeds the max",      "max alloc size",      "exceeding max"};

constexpr std::string_view kKills[] = {"killed", "terminated", "sigkill", "code 137", "(137)", "restarting", "evicted"};
constexpr std::string_view kKilledFor[] = {"too much memory",  "memory issue",  "memory usage",  "memory pressure",
                                           "excessive memory", "memory limit",  "out of memory", "due to memory",
                                           "memory quota",     "low on memory", "oom-kill",      "due to oom",
                                           "oom kill",         "out-of-memory"};

constexpr std::string_view kErrors[] = {"error",   "exception",     "fatal",  "panic",        "abort",    "fail",
                                        "cannot",  "can't",         "unable", "could not",    "critical", "terminate",
                                        "killed",  "please reduce", "crash",  "not possible", "died",     "[e]",
                                        "what():", "refused",       "severe"};

// A line that goes on to say that the program went on.
constexpr std::string_view kExcuses[] = {"falling back",
                                         "fall back",
                                         "fallback",
                                         "retry",
                                         "trying again",
                                         "will try",
                                         " instead",
                                         "to free up",
                                         "not a failure",
                                         "non-fatal",
                                         "ignor",
                                         "skipp",
                                         "recover",
                                         "reclaim",
                                         "evicting",
                                         "spilling",
                                         "resuming",
                                         "pausing",
                                         "defaulting",
                                         "simulat",
                                         " expected ",
                                         "succeeded",
                                         "not an error",
                                         "shared memory size",
                                         "shared memory limit",
                                         "hardware limit",
                                         "shared memory available",
                                         "passed",
                                         "xfail",
                                         "will be used",
                                         "driver version",
                                         "not supported",
                                         "denied",
                                         ": false",
                                         "=false",
                                         "count 0",
                                         "_picker",
                                         "autotun",
                                         "using slow",
                                         "reducing ",
                                         "smaller chunk",
                                         "partially swapped",
                                         "potential root cause",
                                         "common causes include",
                                         "not reached",
                                         "not exceeded",
                                         "not exceed ",
                                         "below the limit",
                                         "within the limit"};
constexpr std::string_view kQuietLevels[] = {"warn",   "[info",  " info ", "info:", "=info",  "\"info\"", " debug ",
                                             "debug:", "[debug", "[w]",    "[i]",   "notice", "[w ",      "trace]"};

// Before the claim and in its sentence: it is spoken of, it did not happen.
constexpr std::string_view kSpokenOf[] = {
    " if ",      " when ",      " whether ",  " in case ", " avoid",    " prevent",  " may ",        " might ",
    " would ",   " should ",    " could be ", " can be ",  " can ",     " how ",     " unless ",     " until ",
    " usually ", " often ",     " such as ",  " e.g.",     " checks ",  " handle",   " without ",    " never ",
    " don't ",   " do not ",    " likely ",   " means ",   " instead ", " like ",    " for example", " hint:",
    " tip:",     " note:",      " usage:",    " so that ", " as soon ", " reports ", " catch",       " detects ",
    " every ",   " what ",      " why ",      " which ",   " where ",   " that ",    " to be ",      " is only ",
    " returns ", " known issue"};

constexpr std::string_view kProseLead[] = {
    " because", " a ",   " an ",   " the ", " fix",  " detect", " after ", " worry", " of ",   " improve", " inject",
    " for ",    " any ", " from ", " our ", " bug ", " make ",  " on ",    " with ", " into ", " its ",    " as "};
constexpr std::string_view kProseTail[] = {"memory errors",   "memory error ",    "memory condition",
                                           "memory handling", "memory situation", "memory case",
                                           "failures",        "memory\" error",   "memory' error"};

constexpr std::string_view kCode[] = {"in str(", "== \"",   "=\\\"",   "(\"",     "('",     "= \"",    "f\"",
                                      "raise ",  "throw ",  "except ", "catch (", "catch(", "return ", "printf",
                                      "#define", "assert_", "expect_", "def ",    "=== ",   "](http",  "</",
                                      "/>",      "::test_", "pytest.", "endif"};
constexpr std::string_view kProse[] = {"//", "/*", "* ", "> ", "| ",     "#",  "- ", "+ ", "`",
                                       "<",  "$ ", "% ", "% ", "\"\"\"", "\\", "@",  "^"};

constexpr std::string_view kPinned[] = {"hostalloc",  "pinned",      "page-locked",
                                        "pagelocked", "page locked", "hostregister"};
constexpr std::string_view kShm[] = {"/dev/shm", "shared memory segment", "shm_open", " shm ", "(shm)", "shmget"};
constexpr std::string_view kHandles[] = {"cublas",   "cudnn",      "cusolver",     "cufft",  "cusparse",
                                         "hipblas",  "rocblas",    "miopen",       "curand", "onednn",
                                         "cutensor", " workspace", "scratch space"};
constexpr std::string_view kOpenCl[] = {"opencl", "cl_", "mem_object", "memory object", "out_of_resources"};
constexpr std::string_view kDevice[] = {
    "gpu",         "cuda",      "hipm",       "hip ",       "rocm",          "vram",          "vulkan",
    "vk_",         "vk::",      "vkalloc",    "npu",        "metal",         "opencl",        "cl_",
    "tpu",         "hbm",       "dram",       "dml",        "d3d",           "directml",      "xpu",
    "cumem",       "sycl",      "level_zero", "device mem", "on device",     "device_id",     "video mem",
    "webgl",       "texture",   "wgpu",       "webgpu",     "rtmalloc",      "mem_object",    "out_of_resources",
    "outofdevice", "of_device", "hiperror",   "mtlbuffer",  "commandbuffer", "memory object", "accelerator",
    "from device", " device ["};
constexpr std::string_view kHost[] = {"host mem",  "heap",      "system mem",  "virtual mem",  "cpu mem",
                                      "bad_alloc", "bad alloc", "errno 12",    "errno: 12",    "mmap",
                                      "vm_map",    " ram",      "webassembly", "array buffer", "java",
                                      "llvm",      "errno=12",  " memoryerror"};
// It says what has no room on the device: the model, its cache.
constexpr std::string_view kDoesNotFit[] = {" to fit ", "not fit ", "for model", "for the model", "for kv cache"};
constexpr std::string_view kHolders[] = {"job",      "container", "cgroup",  "pod",  "process", "quota",    "worker",
                                         "executor", "killed",    "aborted", "held", "step",    "exit code"};

size_t first_of(std::string_view text, Words words) {
  size_t first = npos;
  for (const std::string_view word : words) first = std::min(first, text.find(word));
  return first;
}

bool has_digit(std::string_view text) { return text.find_first_of("0123456789") != npos; }

size_t words_in(std::string_view text) { return 1 + static_cast<size_t>(std::count(text.begin(), text.end(), ' ')); }

// "insufficient virtual memory", "no more memory", "Allowed memory size of 134217728 bytes exhausted".
size_t refused_nearby(std::string_view low) {
  for (const std::string_view word : kScarce) {
    const size_t at = low.find(word);
    if (at == npos) continue;
    const size_t memory = first_of(low.substr(at + word.size()), kMemoryNames);
    if (memory < 24) return at;  // npos is not
  }
  const size_t memory = low.find("memory");
  const size_t end = memory == npos ? npos : low.find("exhausted", memory);
  return end != npos && end - memory < 48 ? memory : npos;
}

// "allocate", "allocating", "allocation", "malloc(" and so on, with a word of failure near; no "allocator", no
// "allocated".
size_t failed_allocation(std::string_view low) {
  if (!has(low, kMemory)) return npos;
  for (size_t at = low.find("alloc"); at != npos; at = low.find("alloc", at + 5)) {
    const std::string_view rest = low.substr(at + 5);
    if (rest.starts_with("ator") || rest.starts_with("ated") || rest.starts_with("_cpu")) continue;
    const size_t from = at - std::min<size_t>(at, 32);
    if (has(low.substr(from, at - from + 60), kFails)) return at;
  }
  const size_t map = std::min(low.find("mmap"), low.find("vm_map"));
  return map != npos && has(low.substr(map), kFails) ? map : npos;
}

enum class Kind : uint8_t { none, refused, allocation, limit, kill };

struct Claim {
  Kind kind = Kind::none;
  size_t at = npos;
};

Claim claim_of(std::string_view low) {
  if (const size_t at = first_of(low, kKills); at != npos && has(low, kKilledFor)) return {Kind::kill, at};
  if (const size_t at = first_of(low, kLimits); at != npos && has(low, kOver)) {
    return {Kind::limit, std::min(at, first_of(low, kOver))};
  }
  if (const size_t at = failed_allocation(low); at != npos) return {Kind::allocation, at};
  if (!has(low, kErrors)) return {};
  const size_t at = std::min(first_of(low, kRefused), refused_nearby(low));
  return at == npos ? Claim{} : Claim{Kind::refused, at};
}

// "torch.OutOfMemoryError:", "java.lang.OutOfMemoryError", "panicked": someone gave up here.
bool is_raised(std::string_view line, std::string_view low) {
  return contains(line, "Error:") || contains(line, "Exception:") || contains(line, "Error(") ||
         contains(low, "fatal") || contains(low, "panicked") || contains(low, "terminate called") ||
         contains(low, "what():");
}

// glog's level stands first: "W0410 13:51:44".
bool is_glog_warning(std::string_view line) {
  return line.size() > 6 && (line[0] == 'W' || line[0] == 'I') && has_digit(line.substr(1, 1)) &&
         has_digit(line.substr(4, 1));
}

// Up to the advice that follows a report: "Try reducing the size", "Please retry with …".
std::string_view without_advice(std::string_view low) {
  constexpr std::string_view kAdvice[] = {". try ",      ". please ", ". consider ", "; try ",
                                          "; consider ", ", try ",    "! try "};
  return low.substr(0, first_of(low, kAdvice));
}

bool went_on(std::string_view line, std::string_view low) {
  if (has(without_advice(low), kExcuses)) return true;
  return (has(low, kQuietLevels) || is_glog_warning(line)) && !is_raised(line, low);
}

// What stands before the claim in its sentence, between blanks.
std::string lead_of(std::string_view low, size_t at) {
  const std::string_view before = low.substr(0, at);
  const size_t sentence = std::max(before.rfind(". ") + 1, before.rfind("; ") + 1);  // npos + 1 is 0
  return " " + std::string(before.substr(sentence)) + " ";
}

// "could not allocate the frame: …": a program says what it could not do, with its figures.
bool begins_with_failure(std::string_view low) {
  constexpr std::string_view kBegin[] = {"error", "could not ", "cannot ", "failed ", "unable "};
  return has_digit(low) && std::any_of(std::begin(kBegin), std::end(kBegin),
                                       [&](std::string_view word) { return low.starts_with(word); });
}

// "error: the model would need 12.4 GiB" is a program that has counted.
std::string without_arithmetic(std::string_view low, std::string lead) {
  constexpr std::string_view kCounted[] = {" would exceed ", " would need ", " would require ", " would take "};
  const size_t would = lead.rfind(" would ");
  const bool counted = begins_with_failure(low) && has(low, kCounted);
  return counted && would != npos ? lead.erase(would, std::string_view(" would").size()) : lead;
}

// Prose has articles and verbs of telling before the words; a report has a name, a place or a figure there.
bool is_spoken_of(std::string_view line, std::string_view low, Claim claim) {
  const size_t at = claim.at;
  const std::string lead = without_arithmetic(low, lead_of(low, at));
  if (has(lead, kSpokenOf) || contains(low.substr(at), " happens to ")) return true;
  if (claim.kind == Kind::kill) return contains(low, " often ") || contains(low, " typically ");
  const bool marked = is_raised(line, low) || begins_with_failure(low) || has_digit(lead) || contains(low, "error:") ||
                      contains(low, "[");
  return !marked && (has(lead, kProseLead) || has(low.substr(at), kProseTail));
}

bool is_text_or_code(std::string_view low) {
  const auto starts = [&](std::string_view mark) { return low.starts_with(mark); };
  const bool quoted = low[0] == '"' && !contains(low, "\":");
  return quoted || low.ends_with("{") || (low.ends_with(";") && contains(low, " = ")) || has(low, kCode) ||
         std::any_of(std::begin(kProse), std::end(kProse), starts);
}

// A report has a prefix, a figure or an exception's name, or is short; a sentence has none of these.
bool is_report(std::string_view line, std::string_view low, size_t at) {
  const size_t prefix = low.find_first_of(":]");
  const size_t words = words_in(low);
  return prefix < at || has_digit(low) || is_raised(line, low) || words <= 9 || (at <= 16 && words <= 14);
}

OptionalBytes figure(std::string_view line, std::string_view low, Words fronts) {
  for (const std::string_view front : fronts) {
    for (size_t at = low.find(front); at != npos; at = low.find(front, at + 1)) {
      const OptionalBytes bytes = leading_size(line.substr(at + front.size()));
      if (bytes && *bytes >= kKiB) return bytes;
    }
  }
  return std::nullopt;
}

void read_figures(std::string_view line, std::string_view low, Failure& failure) {
  constexpr std::string_view kRequested[] = {"requested size was ",
                                             "requested: ",
                                             "requested ",
                                             "request of ",
                                             "allocate ",
                                             "allocating ",
                                             "allocation of ",
                                             "alloc size : ",
                                             "alloc size ",
                                             "allocate: ",
                                             "needed ",
                                             "size: ",
                                             "size:",
                                             "size=",
                                             "of size ",
                                             "size "};
  constexpr std::string_view kFree[] = {"free: ", "available: ", "available ", "is only ", "free memory: "};
  constexpr std::string_view kTotal[] = {"total mem size : ", "total: ", "capacity of ", "total memory: "};
  constexpr std::string_view kAllowed[] = {"limit of ",   "limit: ", "preference (", "supported by device is ",
                                           "maximum of ", "> "};
  failure.requested_bytes = figure(line, low, kRequested);
  failure.free_bytes = figure(line, low, kFree);
  failure.total_bytes = figure(line, low, kTotal);
  failure.allowed_bytes = figure(line, low, kAllowed);
  constexpr std::string_view kLargest[] = {"largest free block: ", "largest free: "};
  failure.largest_free_bytes = figure(line, low, kLargest);
  if (failure.largest_free_bytes) std::swap(failure.unallocated_bytes, failure.free_bytes);
}

void is(Failure& failure, Arena arena, Cause cause) {
  failure.arena = arena;
  failure.says = cause;
}

void tell_limit(std::string_view low, Failure& failure) {
  if (has(low, kOverLargest)) return is(failure, Arena::device, Cause::request_too_large);
  if (has(low, kHolders) && !contains(low, "pool")) {
    failure.backend = Backend::cpu;
    return is(failure, Arena::cgroup, Cause::cgroup_limit);
  }
  is(failure, Arena::device, Cause::cap_below_card);
}

void tell_host(Failure& failure, Cause cause) {
  failure.backend = Backend::cpu;
  is(failure, cause == Cause::cgroup_limit ? Arena::cgroup : Arena::host, cause);
}

void tell_device(std::string_view low, Failure& failure) {
  if (contains(low, "cuda") || contains(low, "cumem")) failure.backend = Backend::cuda;
  if (contains(low, "vulkan") || contains(low, "vk")) failure.backend = Backend::vulkan;
  if (contains(low, "npu")) failure.backend = Backend::npu;
  if (contains(low, "xpu")) failure.backend = Backend::xpu;
  if (contains(low, "hip out of") || contains(low, "rocm")) failure.backend = Backend::rocm;
  if (has(low, kOpenCl)) return is(failure, Arena::device_direct, Cause::unknown);
  const bool figures = failure.requested_bytes && (failure.free_bytes || failure.total_bytes);
  const bool told = failure.requested_bytes || has(low, kDoesNotFit);
  is(failure, Arena::device, told ? Cause::device_full : Cause::unknown);
  if (figures || failure.largest_free_bytes) failure.says.reset();
}

// Which memory the words speak of.
void tell(std::string_view low, std::string_view message, Kind kind, Failure& failure) {
  if (has(low, kPinned)) return is(failure, Arena::pinned_host, Cause::pinned_host_memory);
  if (has(low, kShm)) return is(failure, Arena::shared_memory, Cause::shared_memory);
  if (kind == Kind::limit) return tell_limit(message, failure);
  if (kind == Kind::kill) {
    const bool limit = contains(low, "limit") || contains(low, "container") || contains(low, "quota");
    return tell_host(failure, limit ? Cause::cgroup_limit : Cause::host_memory);
  }
  if (has(low, kHandles)) return is(failure, Arena::device_direct, Cause::workspace);
  if (has(low, kDevice)) return tell_device(low, failure);
  // A few KiB are refused by a pool of fixed size, not by a machine.
  constexpr int64_t kSmall = 16 * kMiB;
  const bool pool = failure.requested_bytes && failure.free_bytes && *failure.free_bytes < *failure.requested_bytes &&
                    *failure.requested_bytes < kSmall;
  if (pool) return is(failure, Arena::host, Cause::cap_below_card);
  tell_host(failure, Cause::host_memory);
  failure.memory_is_assumed = !has(low, kHost);
}

// The line, or what stands around the claim where it is long.
std::string excerpt(std::string_view line, size_t at) {
  constexpr size_t kBefore = 50;
  constexpr size_t kLength = 120;
  const size_t begin = line.size() <= kLength || at <= kBefore ? 0 : at - kBefore;
  return (begin > 0 ? "..." : "") + std::string(line.substr(begin, kLength));
}

std::optional<Failure> find_claim(std::string_view given) {
  const std::string_view line = trim(given);
  if (line.size() < 12 || line.size() > 4000) return std::nullopt;
  const std::string low = lower(line);
  const Claim claim = claim_of(low);
  if (claim.kind == Kind::none || is_text_or_code(low) || went_on(line, low)) return std::nullopt;
  if (is_over(line) || (is_personal(line) && !is_raised(line, low))) return std::nullopt;
  if (is_spoken_of(line, low, claim) || !is_report(line, low, claim.at)) return std::nullopt;
  // Programs go on without pinned memory, unless they call it an error.
  if (has(low, kPinned) && !is_raised(line, low) && !contains(low, "error")) return std::nullopt;
  Failure failure;
  failure.is_fallback = true;
  failure.sure = Confidence::low;
  failure.headline = "In a program that no reader knows, memory was refused: \"{subject}\"";
  failure.subject = excerpt(line, claim.at);
  read_figures(line, low, failure);
  tell(low, lower(without_logger(line)), claim.kind, failure);
  return failure;
}

bool add_nothing(std::string_view, Failure&) { return false; }

}  // namespace

const MessageForm kFallbackForm = {find_claim, add_nothing};

}  // namespace plimsoll::explain
