#pragma once

namespace segue {

// Media threads sleep most of the time and are due to the millisecond: they go before threads that compute all day.
// Best effort: false where the process may not (Linux asks for CAP_SYS_NICE or a raised RLIMIT_NICE), and nothing changes then.
bool RaiseThreadPriority();

}  // namespace segue
