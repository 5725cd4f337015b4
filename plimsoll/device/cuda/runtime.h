// What kernels need of one card: its driver and context, compiled code, the libraries' handles. Made by the device of
// that card, stays until the process ends. Used by one host thread at a time.
#pragma once

#include <map>
#include <string>

#include "plimsoll/device/cuda/compute_api.h"
#include "plimsoll/device/cuda/cublas_lt.h"
#include "plimsoll/device/cuda/cudnn.h"
#include "plimsoll/device/cuda/driver.h"
#include "plimsoll/device/cuda/modules.h"

namespace plimsoll::cuda {

class Runtime {
 public:
  // DriverMissing without a driver, ArgumentError for a card that there is not.
  explicit Runtime(DeviceOrdinal ordinal);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The one of the card that this thread used last, or, where it used none, that any did. UnsupportedError before there
  // is any.
  static Runtime& current();
  static bool exists();
  // Makes it the current one, and its context current in this thread.
  void use();

  const Driver& driver() const { return driver_; }
  const Compute& compute() const { return compute_; }
  Modules& modules() { return modules_; }
  DeviceOrdinal ordinal() const { return ordinal_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90a"
  int multiprocessors() const { return multiprocessors_; }
  int64_t overhead_bytes() const { return overhead_bytes_; }  // what the context took of the card's memory
  int64_t free_bytes() const;                                 // of the card, now
  // What is gone since the context was there, less pages: code and memory of libraries, and what others took meanwhile.
  int64_t grown_bytes() const { return free_at_start_ - free_bytes() - page_bytes_ - ranks_taken_; }
  int64_t page_bytes() const { return page_bytes_; }         // of arenas and pools, in pages
  void count_pages(int64_t bytes) { page_bytes_ += bytes; }  // that were created, or destroyed when negative
  // What a communicator of ranks has taken of the card, and what is booked for it, which is no less.
  void book_ranks(int64_t taken, int64_t booked) {
    ranks_taken_ = taken;
    ranks_booked_ = booked;
  }
  int64_t ranks_booked() const { return ranks_booked_; }
  int64_t ranks_to_come() const { return ranks_booked_ - ranks_taken_; }  // booked, and not taken yet

  void check(Result result, const char* doing) const {
    if (result != kSuccess) fail(result, doing);
  }
  [[noreturn]] void fail(Result result, const std::string& doing) const { driver_.fail(result, doing); }

  // Pinned memory of the host for what waits outside the card within a step, the same for the same size. SystemError.
  std::byte* host_room(int64_t bytes);

  // Null where the library is not installed.
  const CublasLt* blas();
  LtHandle blas_handle() const { return blas_handle_; }
  const Cudnn* dnn();
  DnnHandle dnn_handle() const { return dnn_handle_; }

 private:
  Driver driver_;
  Compute compute_;
  DeviceOrdinal ordinal_;
  int64_t overhead_bytes_ = 0;  // set while the context is started
  Context context_ = nullptr;
  std::string architecture_;
  int multiprocessors_ = 0;
  int64_t free_at_start_ = 0;
  int64_t page_bytes_ = 0;
  int64_t ranks_taken_ = 0;
  int64_t ranks_booked_ = 0;
  Modules modules_;
  std::map<int64_t, std::byte*> rooms_;
  const CublasLt* blas_ = nullptr;
  LtHandle blas_handle_ = nullptr;
  bool asked_blas_ = false;
  const Cudnn* dnn_ = nullptr;
  DnnHandle dnn_handle_ = nullptr;
  bool asked_dnn_ = false;
};

}  // namespace plimsoll::cuda
