// The errors that callers can expect. Each message is complete: what, where, what was found, what to do; a caller may
// show it as it is. Bugs of ours assert instead. ResourceExhausted, which carries a report, is in oom.h.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plimsoll {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A value that the caller passed makes no sense: a negative shape, a size that is no size, a block that is not ours.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

// Well-formed, but not something this build or device can do; the message names what can.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

// The system refused: a file that cannot be opened, a full disk, an mmap that failed. Names the path and the reason.
class SystemError : public Error {
 public:
  using Error::Error;
  // "`doing` failed: No space left on device", from an errno.
  static SystemError from_errno(std::string_view doing, int error);
};

// Where in an input: its name, and what is known of the place. Lines and columns count from 1, offsets from 0.
struct Place {
  std::string source;
  int64_t line = 0;     // 0: not a text, or not known
  int64_t column = 0;   // 0: the whole line
  int64_t offset = -1;  // byte offset in a binary input; -1: not known

  std::string text() const;  // "run.csv:12:7" or "snapshot.pickle at byte 4096"
};

// An input that cannot be read: "run.csv:12:7: found 'abc', expected a number of bytes".
class InputError : public Error {
 public:
  InputError(Place place, std::string_view found, std::string_view expected);
  // For what is no "found X, expected Y": "run.csv:12: id 7 is freed twice".
  InputError(Place place, std::string_view message);

  const Place& place() const { return place_; }

 private:
  Place place_;
};

// Text of an input made fit to print: quotes around it, control bytes as \xNN, cut after 60 characters.
std::string quote(std::string_view text);

}  // namespace plimsoll
