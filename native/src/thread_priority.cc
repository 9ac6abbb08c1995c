#include "thread_priority.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace segue {

bool RaiseThreadPriority() {
#ifdef __linux__
  constexpr int kNice = -10;  // ahead of everything ordinary, behind the kernel's own
  // On Linux the nice value belongs to a thread, named by its id.
  return setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice) == 0;
#else
  return false;
#endif
}

}  // namespace segue
