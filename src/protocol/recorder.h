// Writes the recording of one core while its process runs. What was written survives the death of
// the process by any signal, up to the commands of the last step; nothing is synced to the disk. A
// recorder that cannot go on (its limit, a full disk) says so once in the log, and stops: the
// process does not.
//
// Belongs to whoever steps the core; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "protocol/core_records.h"
#include "protocol/recording.h"
#include "protocol/scrub.h"

namespace mobula::internal {

inline constexpr const char* record_variable = "MOBULA_RECORD";
inline constexpr const char* record_limit_variable = "MOBULA_RECORD_LIMIT";

struct RecordOptions {
  std::string folder;                                  // empty: no recording
  std::uint64_t limit_bytes = std::uint64_t{1} << 30;  // of each file
};

// What MOBULA_RECORD and MOBULA_RECORD_LIMIT say, with an absolute path; for `main`, and for
// executors, which have no other way to be told. invalid_argument for a limit that is no number of
// bytes.
Result<RecordOptions> record_options_from_environment();

class Recorder {
 public:
  // Makes <folder>/<role>-<pid>-<incarnation>.mobrec, mode 0600; pid and time of `header` are
  // filled in. Null where the options name no folder.
  static Result<std::unique_ptr<Recorder>> start(const RecordOptions& options,
                                                 RecordingHeader header);
  // Writes what is left.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool recording() const { return fd_.get() >= 0; }
  // Before the core takes the event: it is in the file should the core abort on it.
  void took(Time at, std::span<const std::byte> event);
  // What the core wants done for it. Written with the next event, or by flush().
  void gave(std::span<const Bytes> commands);
  void flush();

  const Scrubber& scrubber() const { return scrubber_; }
  const std::string& path() const { return path_; }

 private:
  Recorder(Fd fd, std::string path, std::uint64_t limit_bytes);
  void stop(const std::string& why);

  Fd fd_;
  const std::string path_;
  const std::uint64_t limit_bytes_;
  const Scrubber scrubber_;
  std::uint64_t written_ = 0;
  Bytes waiting_;
};

// Steps a core; with a recorder, what it was told and what it answered is written.
template <class Core>
void step_recorded(Core& core, Recorder* recorder, Time now, typename Core::Event&& event,
                   std::vector<typename Core::Command>& out) {
  using Records = CoreRecords<Core>;
  if (recorder == nullptr || !recorder->recording()) return core.step(now, std::move(event), out);
  recorder->took(now, Records::recorded(event, recorder->scrubber()));
  const std::size_t first = out.size();
  core.step(now, std::move(event), out);
  recorder->gave(Records::recorded(std::span<const typename Core::Command>(out).subspan(first),
                                   recorder->scrubber()));
}

}  // namespace mobula::internal
