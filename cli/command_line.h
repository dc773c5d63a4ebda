// The parsed command line of the `mobula` program: arguments and environment.
// Thread: main, at start.
// Errors: wrong use is a `Parsed` with a text and an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/logging/log.h"
#include "base/model/request.h"
#include "base/quantity.h"
#include "base/result.h"
#include "cli/command_tree.h"
#include "cli/commands/jobs/job_flags.h"
#include "cli/commands/shell_flags.h"
#include "cli/commands/token_flags.h"
#include "cli/commands/tune/tune_flags.h"
#include "cli/output/color.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::cli {

enum class OutputFormat { table, wide, json, jsonl, yaml, csv, name };
inline constexpr const char* output_formats_text = "table, wide, json, jsonl, yaml, csv, or name";

// Explicitly given resources of a node.
struct NodeFlags {
  std::optional<Quantity> num_cpus{};
  std::optional<Quantity> num_gpus{};
  std::optional<std::int64_t> gpu_memory_bytes{};
  std::optional<std::int64_t> gpu_context_bytes{};
  std::optional<std::int64_t> memory_bytes{};
  std::optional<std::int64_t> object_store_bytes{};
  std::string spill_dir{};  // "none": no spilling; empty: a directory of the agent
  int spill_above_percent = 80;
  std::size_t bulk_connections = 0;  // per peer node; 0: by the number of cores
  int spin_us = 50;                  // spin time before a waiting thread sleeps
  ResourceSet resources{};
  std::set<std::string> in_units{};  // names in `resources` whose units are numbered instances
  std::string accelerator_type{};
  Labels labels{};
};

struct StartOptions {
  bool head = false;
  bool repl = false;          // opens a console when the head runs
  bool local = false;         // cluster of one driver, which ends with it
  bool driver_agent = false;  // agent with zero resources
  bool check_only = false;    // checks the flags and starts nothing
  bool expect_head = false;   // fails unless the head already runs
  bool worker = true;
  bool block = false;
  bool insecure = false;
  bool expose_head_keys = false;  // jobs may run as a user that can read the keys of the head
  std::optional<Duration> preempt_delay{};  // head: waiting time before a preemption; absent: off
  std::int64_t driver_absence_s = 0;        // head; 0: default
  bool trusted_fabric = false;              // head: bytes between nodes are not encrypted
  std::string http{};                       // head: HOST:PORT of the HTTP pages; empty: off
  bool http_unencrypted = false;            // allows HTTP beyond loopback
  std::string http_cert{};                  // head: PEM files of the pages; empty: plain HTTP
  std::string http_key{};
  std::string autoscale{};       // head: types file; empty: no autoscaler
  bool autoscale_given = false;  // so that an empty `autoscale` means off
  bool as_given = false;         // head: reuses no flags of the previous start
  bool http_given = false;       // so that an empty `http` means off
  bool preemption_given = false;
  std::string made_by{};  // head: command of another program that restarts it
  std::string join{};     // agent: a join token, or @FILE
  std::string fabric{};   // agent: name or network of its trusted fabric
  std::string bind{};
  std::string advertise{};
  std::uint16_t port = 0;
  double memory_threshold = 0.95;  // 0: off
  double grace = 30;               // seconds for running calls after SIGTERM
  std::optional<std::int64_t> executor_memory_bytes{};
  std::string gpu_over_share = "error";  // off, log, error, kill
  std::int64_t gpu_watch_ms = 1000;
  NodeFlags node{};
  RecordOptions record{};  // --record, otherwise the environment
  int ready_fd = -1;
  int life_fd = -1;
};

// Flags of `events`.
struct EventFlags {
  std::string severity{};
  std::string kind{};
  std::string id{};     // id, or a prefix, of the events' subject
  std::string since{};  // an age or a time
};

// Flags of `doctor`.
struct DoctorFlags {
  bool probe = false;               // for container probes
  std::vector<std::string> ways{};  // launchers whose programs are checked too
};

// Presentation of tables.
struct TableFlags {
  std::vector<std::string> columns{};  // by header or member; empty: default
  std::string sort_by{};               // header or member; "-NAME": descending
  bool headers = true;
  bool cut = true;  // cut lines to the terminal's width
  bool colored = false;
};

class ConsoleLink;

struct CommandLine {
  std::string command;  // "start", "status", …
  std::string state_dir;
  std::string cluster;  // empty: not given
  std::string address;
  std::string key_file;
  std::string token{};  // token from the environment: its text, or @FILE
  std::optional<LogLevel> log_level{};
  OutputFormat output = OutputFormat::table;
  StartOptions start{};
  std::string types_file;   // `plan`
  std::string subject;      // id, name, or request
  bool restart = false;     // kill: the actor may start again
  std::string method{};     // call
  std::string arguments{};  // call: JSON
  std::string kind;         // `list` and `get`
  std::vector<std::pair<std::string, std::string>> filters{};
  Labels labels{};          // `list`: only items with these labels
  std::int64_t limit = -1;  // `list`: number of rows; negative: not given
  double seconds = -1;      // --grace, --deadline; negative: not given
  JobFlags job{};
  ShellFlags shell{};
  EventFlags events{};
  DoctorFlags doctor{};
  bool progress = true;     // progress lines on a terminal
  std::string output_file;  // `timeline`
  std::string otlp_url{};   // `timeline`
  TokenFlags tokens{};
  TuneFlags tune{};
  TableFlags table{};
  ColorChoice color = ColorChoice::automatic;
  bool pager = true;  // long pages may use a pager
  bool watch = false;
  double watch_seconds = 2;
  bool once = false;       // `top`
  std::int64_t rows = -1;  // `top`; negative: screen height
  bool follow = false;
  std::string grep;  // `logs`
  bool raw = false;
  std::int64_t tail = -1;               // lines; negative: all
  ConsoleLink* console_link = nullptr;  // connection of a console, for the requests of this command
};

// A command line, or a text to print before the program ends with `exit`.
struct Parsed {
  std::optional<CommandLine> line{};
  int exit = 0;
  std::string text{};
};

// `output` is the format if the command names none.
Parsed parse_command_line(int argc, char** argv, OutputFormat output = OutputFormat::table);

// Returns the format of this name.
std::optional<OutputFormat> output_format_of(const std::string& name);

// Returns all commands, for completion, help, and manual pages.
CommandNode command_tree();

// Returns bytes for "1073741824", "512MiB", "4G", or "1.5GB"; otherwise invalid_argument.
Result<std::int64_t> parse_size(const std::string& text);

}  // namespace mobula::internal::cli
