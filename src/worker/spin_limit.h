// How many threads of this node may look before they sleep: as many as there are processors without
// anything to run, and always one fewer than there are processors, for somebody has to do what they
// wait for. The machine says how many threads run, whoever's they are; it is asked only while somebody
// looks, and once a second otherwise. For the loop's thread alone.
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
#include "transport/event_loop.h"
#include "transport/spin_page.h"

namespace mobula::internal::worker {

// The rule, without a clock or files: the least of the last few samples decides, which is what has run all
// the while. A mean would be of those who are waited for as well, and of bursts: whoever may not look then
// is woken for each call, which makes the machine look busier still.
class SpinRoom {
 public:
  // `processors` of the machine, of which this node may use `own`.
  SpinRoom(int processors, int own) : processors_(processors), own_(own) { others_.fill(std::numeric_limits<int>::max()); }
  // `running` threads run or could, of which `spinning` only look. How many may look.
  std::size_t sample(int running, int spinning);

 private:
  const int processors_;
  const int own_;
  std::array<int, 8> others_;  // that ran and did not look
  std::size_t next_ = 0;
};

struct SpinLimitOptions {
  Duration longest = 50us;  // one look; 0: nobody looks
  std::string load_file = "/proc/loadavg";
};

class SpinLimit {
 public:
  static Result<std::unique_ptr<SpinLimit>> create(EventLoop& loop, SpinLimitOptions options);

  // What a process needs.
  Result<Fd> file() const { return copy_of(file_); }
  void left(ProcessId process) { page_.take_away(spin_number(process)); }
  std::size_t room() const { return page_.room(); }

 private:
  SpinLimit(EventLoop& loop, const SpinLimitOptions& options, Fd file, SpinPage page);
  void look();

  Fd file_;
  SpinPage page_;
  Fd load_;
  SpinRoom room_;
  int unused_looks_ = 0;
  Timer timer_;
};

}  // namespace mobula::internal::worker
