#include "sim/replay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <span>
#include <string_view>

#include "client/core/client_core.h"
#include "client/executor/core/executor_core.h"
#include "head/core/head_core.h"
#include "protocol/messages/core_records.h"
#include "protocol/recording/recording.h"
#include "worker/core/worker_core.h"

namespace mobula::internal::sim {
namespace {

// Names the step in the line that an aborting core prints.
char current_step[4096];

void print_step(int) {
  const std::size_t size = std::char_traits<char>::length(current_step);
  (void)!::write(STDERR_FILENO, current_step, size);
}

void name_step(const std::string& text) {
  const auto end = fmt::format_to_n(current_step, sizeof current_step - 2, "{}", text);
  *end.out = '\n';
  *(end.out + 1) = '\0';
}

std::string time_text(Time at, Time first) {
  return fmt::format("{:.6f} s", static_cast<double>((at - first).count()) * 1e-9);
}

template <class Core>
class Replay {
 public:
  Replay(RecordingReader& reader, const std::string& path, std::FILE* trace)
      : reader_(reader), path_(path), trace_(trace) {}

  Result<Replayed> run() {
    auto options = Records::decode_options(reader_.header().options);
    if (!options) return refused("its options: " + options.error().text);
    Core core(std::move(*options));
    for (;;) {
      auto step = reader_.next();
      if (!step) return refused(step.error().text);
      if (!*step) break;
      if (auto fault = take(core, **step); !fault) return fault.error();
      if (!result_.same) return result_;
    }
    result_.text = reader_.ending();
    return result_;
  }

 private:
  using Records = CoreRecords<Core>;
  using Event = typename Core::Event;
  using Command = typename Core::Command;

  Failure refused(const std::string& why) const {
    return failure(ErrorCode::corrupt, fmt::format("step {}: {}", result_.steps + 1, why));
  }

  Result<void> take(Core& core, const RecordedStep& step) {
    auto event = Records::decode_event(step.event);
    if (!event) return refused("its event: " + event.error().text);
    if (result_.steps == 0) first_ = step.at;
    ++result_.steps;
    // Describing an event is expensive. Without a trace, only the last step is described: it has no
    // commands if the recorded process aborted.
    const bool shown = trace_ != nullptr || !step.commands;
    const std::string said = shown ? Records::text(*event) : std::string();
    name_step(fmt::format("{}: aborts in step {} {}", path_, result_.steps, said));
    if (trace_ != nullptr) {
      fmt::print(trace_, "{:>6} {} <- {}\n", result_.steps, time_text(step.at, first_), said);
    }
    std::vector<Command> commands;
    core.step(step.at, *event, commands);
    for (const auto& command : commands) {
      if (trace_ != nullptr) fmt::print(trace_, "{:>18} {}\n", "->", Records::text(command));
    }
    if (step.commands) compare(step, *event, commands);
    return {};
  }

  void compare(const RecordedStep& step, const Event& event, const std::vector<Command>& commands) {
    const auto got = Records::recorded(commands, scrubber_);
    const auto& expected = *step.commands;
    if (got == expected) return;
    std::size_t which = 0;
    while (which < got.size() && which < expected.size() && got[which] == expected[which]) ++which;
    result_.same = false;
    result_.text = fmt::format(
        "step {} at {}\n  event    {}\n  command  {} (recorded {}, now {})\n  recorded {}\n"
        "  now      {}",
        result_.steps, time_text(step.at, first_), Records::text(event), which + 1, expected.size(),
        got.size(),
        which < expected.size() ? text_of(expected[which]) : std::string("nothing more"),
        which < got.size() ? text_of(got[which]) : std::string("nothing more"));
  }

  std::string text_of(std::span<const std::byte> command) const {
    const auto decoded = Records::decode_command(command);
    return decoded ? Records::text(*decoded) : decoded.error().text;
  }

  RecordingReader& reader_;
  const std::string& path_;
  std::FILE* const trace_;
  // The recording is scrubbed already. This scrubber is for values that the replayed core makes.
  const Scrubber scrubber_{Hash128{}};
  Replayed result_;
  Time first_;
};

}  // namespace

Result<Replayed> replay(const std::string& path, std::FILE* trace) {
  auto reader = RecordingReader::open(path);
  if (!reader) return reader.error();
  const RecordingHeader& header = reader->header();
  if (trace != nullptr) {
    fmt::print(trace, "{}: {} core of {} process {}, incarnation {}\n", path, header.core,
               header.role, header.pid, hex_of(header.incarnation));
  }
  if (header.core == "head") {
    return Replay<head::HeadCore>(*reader, path, trace).run();
  }
  if (header.core == "agent") {
    return Replay<worker::WorkerCore>(*reader, path, trace).run();
  }
  if (header.core == "client") {
    return Replay<client::ClientCore>(*reader, path, trace).run();
  }
  if (header.core == "executor") {
    return Replay<executor::ExecutorCore>(*reader, path, trace).run();
  }
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("{} records a core '{}', which this build does not have", path, header.core));
}

int replay_files(const std::vector<std::string>& paths, bool trace) {
  std::signal(SIGABRT, print_step);
  std::uint64_t steps = 0;
  std::size_t failed = 0;
  for (const auto& path : paths) {
    const auto result = replay(path, trace ? stdout : nullptr);
    if (!result) {
      fmt::print("{}: cannot be replayed: {}\n", path, result.error().text);
      ++failed;
      continue;
    }
    steps += result->steps;
    if (!result->same) {
      fmt::print("{}: other commands than recorded in {}\n", path, result->text);
      ++failed;
      continue;
    }
    fmt::print("{}: {} steps, same commands{}{}\n", path, result->steps,
               result->text.empty() ? "" : "; ", result->text);
  }
  if (paths.size() > 1) {
    fmt::print("{} files, {} steps, {} not the same\n", paths.size(), steps, failed);
  }
  std::fflush(stdout);
  return failed == 0 ? 0 : 1;
}

}  // namespace mobula::internal::sim
