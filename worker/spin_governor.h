// Limits how many threads of this node may spin before they block: the number of idle processors,
// and at most one less than the node's processors, because another thread must do the awaited work.
// The machine's count of running threads includes other programs. It is sampled at a high rate only
// while permits are requested, otherwise once a second.
// Thread: the agent's loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "transport/loop/event_loop.h"
#include "transport/ring/spin_budget.h"

namespace mobula::internal::worker {

// The rule, without clock or files: the least of the last 8 samples decides, because it is the load
// that was always present. A mean would include awaited threads and bursts; threads without a
// permit are then woken for each call, which raises the load further.
class IdleCpuEstimate {
 public:
  // `processors` of the machine, of which this node may use `own`.
  IdleCpuEstimate(int processors, int own) : processors_(processors), own_(own) {
    others_.fill(std::numeric_limits<int>::max());
  }
  // `running` threads are running or runnable, `spinning` of them only spin. Returns the number of
  // permits.
  std::size_t sample(int running, int spinning);

 private:
  const int processors_;
  const int own_;
  std::array<int, 8> others_;  // samples of running threads that did not spin
  std::size_t next_ = 0;
};

struct SpinLimitOptions {
  Duration longest = 50us;  // longest spin; 0: no spinning
  std::string load_file = "/proc/loadavg";
};

class SpinGovernor {
 public:
  static Result<std::unique_ptr<SpinGovernor>> create(EventLoop& loop, SpinLimitOptions options);

  // Descriptor of the spin page, for a process.
  Result<Fd> file() const { return copy_of(file_); }
  void left(ProcessId process) { page_.take_away(spin_number(process)); }
  std::size_t permits() const { return page_.permits(); }

 private:
  SpinGovernor(EventLoop& loop, const SpinLimitOptions& options, Fd file, SpinBudget page);
  void sample();

  Fd file_;
  SpinBudget page_;
  Fd load_;
  IdleCpuEstimate idle_cpus_;
  int unused_samples_ = 0;
  Timer timer_;
};

}  // namespace mobula::internal::worker
