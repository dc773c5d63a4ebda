// What the user of the `mobula` program has asked for, read from its arguments and the environment.
// Values; for the main thread at start.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/quantity.h"
#include "base/result.h"
#include "cli/colour.h"
#include "cli/command_tree.h"
#include "cli/job_flags.h"
#include "cli/shell_flags.h"
#include "cli/token_flags.h"
#include "model/request.h"
#include "protocol/recorder.h"

namespace mobula::internal::cli {

enum class OutputFormat { table, wide, json, jsonl, yaml, csv, name };
inline constexpr const char* output_formats_text = "table, wide, json, jsonl, yaml, csv or name";

// The resources of a node, where they are given.
struct NodeFlags {
  std::optional<Quantity> num_cpus{};
  std::optional<Quantity> num_gpus{};
  std::optional<std::int64_t> gpu_memory_bytes{};
  std::optional<std::int64_t> gpu_context_bytes{};
  std::optional<std::int64_t> memory_bytes{};
  std::optional<std::int64_t> object_store_bytes{};
  std::string spill_folder{};  // "none": no spilling; empty: in the agent's own folder
  int spill_above_percent = 80;
  std::size_t bulk_connections = 0;  // to one other node; 0: by its cores
  int spin_us = 50;  // that a thread looks for the answer of a call before it sleeps
  ResourceSet resources{};
  std::set<std::string> in_units{};  // of `resources`, those counted in numbered instances
  std::string accelerator_type{};
  Labels labels{};
};

struct StartOptions {
  bool head = false;
  bool repl = false;          // once it runs, a console for it
  bool local = false;         // of one driver, ends with it
  bool driver_agent = false;  // offers nothing
  bool check_only = false;    // the flags, and nothing is started
  bool expect_head = false;   // it is there, or the start fails
  bool worker = true;
  bool block = false;
  bool insecure = false;
  bool expose_head_keys = false;  // jobs of the node may run as a user that can read the keys of the head
  std::optional<Duration> preempt_after{};  // of a head; nothing: never
  std::int64_t driver_absence_s = 0;        // head only; 0: default of the head
  bool trusted_fabric = false;  // of a head: bytes between nodes are not sealed
  std::string http{};           // of a head: HOST:PORT of its pages; empty: none
  bool http_unencrypted = false;  // they may be beyond this machine
  bool as_given = false;        // of a head: nothing is taken from the start before this one
  bool http_given = false;      // and so an empty one means off
  bool preemption_given = false;
  std::string made_by{};        // of a head: the command that starts it again, where that is another program's
  std::string join{};           // of a node: a ticket, or @FILE
  std::string fabric{};         // of a node: trusted network that it is on, by name or as a network
  std::string bind{};
  std::string advertise{};
  std::uint16_t port = 0;
  double memory_threshold = 0.95;  // 0: off
  double grace = 30;               // seconds for running calls after SIGTERM
  std::optional<std::int64_t> executor_memory_bytes{};
  std::string gpu_over_share = "error";  // off, log, error, kill
  std::int64_t gpu_watch_ms = 1000;
  NodeFlags node{};
  RecordOptions record{};  // --record, else the environment
  int ready_fd = -1;
  int life_fd = -1;
};

// Of `events`.
struct EventFlags {
  std::string severity{};
  std::string kind{};
  std::string id{};     // of what they are about, or the beginning of it
  std::string since{};  // a span or a time
};

// Of `doctor`.
struct DoctorFlags {
  bool probe = false;               // for probes of containers
  std::vector<std::string> ways{};  // of launching whose programs are looked for, too
};

// How tables are shown.
struct TableFlags {
  std::vector<std::string> columns{};  // by header or member; empty: the usual ones
  std::string sort_by{};               // likewise; "-NAME": backwards
  bool headers = true;
  bool cut = true;  // to the terminal's width
  bool coloured = false;
};

class KeptLink;

struct CommandLine {
  std::string command;  // "start", "status", …
  std::string state_folder;
  std::string cluster;  // empty: not given
  std::string address;
  std::string key_file;
  std::string token{};  // of the environment: the text, or @FILE
  std::optional<LogLevel> log_level{};
  OutputFormat output = OutputFormat::table;
  StartOptions start{};
  std::string types_file;  // of `plan`
  std::string subject;  // a node, a request, whose log
  std::string kind;     // of `list` and `get`
  std::vector<std::pair<std::string, std::string>> filters{};
  Labels labels{};      // of `list`: only items with these
  std::int64_t limit = -1;  // of `list`: rows; negative: not given
  double seconds = -1;  // --grace, --deadline; negative: not given
  JobFlags job{};
  ShellFlags shell{};
  EventFlags events{};
  DoctorFlags doctor{};
  bool progress = true;  // long work may say on a terminal how far it is
  std::string output_file;  // of `timeline`
  TokenFlags tokens{};
  TableFlags table{};
  ColourChoice colour = ColourChoice::automatic;
  bool pager = true;  // long pages may go through one
  bool watch = false;
  double watch_seconds = 2;
  bool once = false;         // of `top`
  std::int64_t rows = -1;    // of `top`; negative: what the screen has room for
  bool follow = false;
  std::string grep;  // of `logs`
  bool raw = false;
  std::int64_t tail = -1;  // lines; negative: all
  KeptLink* kept = nullptr;  // the connection of a console, for the questions of this command
};

// Either a command line, or that the program ends now with `exit`, having printed `text`.
struct Parsed {
  std::optional<CommandLine> line{};
  int exit = 0;
  std::string text{};
};

// `output` is the format where the command names none.
Parsed parse_command_line(int argc, char** argv, OutputFormat output = OutputFormat::table);

// "json" and the like.
std::optional<OutputFormat> output_format_of(const std::string& name);

// All commands, for completion, help and manual pages.
CommandNode command_tree();

// "1073741824", "512MiB", "4G", "1.5GB": bytes. invalid_argument otherwise.
Result<std::int64_t> parse_size(const std::string& text);

}  // namespace mobula::internal::cli
