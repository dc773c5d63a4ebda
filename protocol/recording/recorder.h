// Writes the recording of one core while its process runs. Written data survives any signal, up to
// the commands of the last step, but is not synced to the disk. A recorder that cannot continue
// (limit, full disk) logs that once and stops; the process continues.
// Thread: owner (the thread that steps the core).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "protocol/messages/core_records.h"
#include "protocol/recording/recording.h"
#include "protocol/recording/scrub.h"

namespace mobula::internal {

inline constexpr const char* record_variable = "MOBULA_RECORD";
inline constexpr const char* record_limit_variable = "MOBULA_RECORD_LIMIT";

struct RecordOptions {
  std::string directory;                               // empty: no recording
  std::uint64_t limit_bytes = std::uint64_t{1} << 30;  // limit of each file, in bytes
};

// Values of MOBULA_RECORD and MOBULA_RECORD_LIMIT, with an absolute path. For `main`, and for
// executors, which have no other source of options.
// Errors: invalid_argument for a limit that is not a number of bytes.
Result<RecordOptions> record_options_from_environment();

class Recorder {
 public:
  // Creates `<directory>/<role>-<pid>-<incarnation>.mobrec` with mode 0600, and fills in pid and
  // time of `header`. Returns null if the options name no directory.
  static Result<std::unique_ptr<Recorder>> start(const RecordOptions& options,
                                                 RecordingHeader header);
  // Writes buffered data.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool recording() const { return fd_.get() >= 0; }
  // Records the event before the core handles it, so that the file has it even if the core aborts.
  void took(Time at, std::span<const std::byte> event);
  // Records the commands of the core. Written with the next event, or by flush().
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

// Records one step of a core: the event at the beginning, and at the end the commands that the step
// appended to `out`. Without a recorder it does nothing.
template <class Core>
class StepRecording {
 public:
  using Records = CoreRecords<Core>;

  StepRecording(Recorder* recorder, Time now, const typename Core::Event& event,
                const std::vector<typename Core::Command>& out)
      : recorder_(recorder != nullptr && recorder->recording() ? recorder : nullptr),
        out_(out),
        first_(out.size()) {
    if (recorder_ != nullptr) recorder_->took(now, Records::recorded(event, recorder_->scrubber()));
  }
  ~StepRecording() {
    if (recorder_ == nullptr) return;
    recorder_->gave(Records::recorded(std::span<const typename Core::Command>(out_).subspan(first_),
                                      recorder_->scrubber()));
  }
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;

 private:
  Recorder* const recorder_;  // null: nothing is recorded
  const std::vector<typename Core::Command>& out_;
  const std::size_t first_;
};

// Steps a core, and records its event and commands if a recorder exists.
template <class Core>
void step_recorded(Core& core, Recorder* recorder, Time now, typename Core::Event&& event,
                   std::vector<typename Core::Command>& out) {
  const StepRecording<Core> recording(recorder, now, event, out);
  core.step(now, std::move(event), out);
}

}  // namespace mobula::internal
