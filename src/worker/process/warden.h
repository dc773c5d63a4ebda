// The process above the command of one submitted job: a subreaper, so that whatever the command starts stays below
// it, with a session of its own, forked twice and with its environment cleared too. It is there until nothing is
// left, and says over its socket when the command has started and how it has ended. If its agent is gone, by
// whatever cause, it kills all that is below it. Signals that ask to end pass it by.
//
// `mobula job-warden FD` runs one; an agent starts its own program for it, so both ends are of one build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "protocol/codec.h"
#include "worker/process/launch.h"
#include "worker/process/process_tree.h"

namespace mobula::internal::worker {

// The command, to its warden: in a memory file, since an environment may be large.
struct WardenOrder {
  std::string program;  // a path
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string working_directory;
  std::string scratch_directory;
  bool needs_working_directory = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("program", &WardenOrder::program), field("argv", &WardenOrder::argv),
                 field("environment", &WardenOrder::environment),
                 field("working_directory", &WardenOrder::working_directory),
                 field("scratch_directory", &WardenOrder::scratch_directory),
                 field("needs_working_directory", &WardenOrder::needs_working_directory));
  }
};

// Of the command: once when it has started, once when it has ended.
struct WardenWord {
  bool ended = false;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // as ProcessStamp has it
  std::int32_t status = 0;       // as waitpid gives it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("ended", &WardenWord::ended), field("pid", &WardenWord::pid),
                 field("start_time", &WardenWord::start_time), field("status", &WardenWord::status));
  }
};

struct StartedWarden {
  ProcessStamp stamp;
  Fd pidfd;
  Fd control;  // non-blocking
};

// `warden`: program and first words that run one. `environment`: its own, not the command's. `output_fd`: stdout and
// stderr of both.
Result<StartedWarden> start_warden(const std::vector<std::string>& warden, std::vector<std::string> environment,
                                   const WardenOrder& order, int output_fd);
// What has come from it; nothing where nothing is there. not_found: it will say no more.
Result<std::vector<WardenWord>> read_warden(int control);

// The warden's whole life; its exit code. `argv`: what follows the first words. Before any thread is started.
int run_warden(const std::string& control_fd);

}  // namespace mobula::internal::worker
