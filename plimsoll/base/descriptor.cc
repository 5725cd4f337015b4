#include "plimsoll/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace plimsoll {

int keep_apart(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return above;
}

}  // namespace plimsoll
