// Statements for a user's program.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/output/log_lines.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/text_table.h"
#include "cli/repl/live_names.h"
#include "cli/repl/pending_value.h"
#include "cli/repl/shell.h"

namespace mobula::internal::cli::repl {
namespace {

constexpr std::size_t longest_output_line = 16'384;
constexpr int most_lines = 200;                // lines of output between two polls for an answer
constexpr std::size_t longest_value = 10'000;  // bytes of a value on a terminal

// Prints the reason of {"ok": false, …} and returns the exit code.
int refused(const Json& answer) {
  return complain(
      failure(ErrorCode::invalid_argument, answer.value("kind", std::string("Error")) + ": " +
                                               answer.value("error", std::string())),
      answer.value("exit", static_cast<int>(exit_failed)));
}

std::string joined(const Json& texts) {
  std::string text;
  for (const auto& each : texts) text += (text.empty() ? "" : ", ") + each.get<std::string>();
  return text;
}

// Ids of jobs are texts.
Json arguments_json(const std::vector<Argument>& arguments,
                    const std::map<std::string, std::string>& jobs) {
  Json json = Json::array();
  for (const auto& each : arguments) {
    Json argument = Json::object();
    const auto job = jobs.find(each.name);
    if (job != jobs.end())
      argument["json"] = job->second;
    else if (each.name.empty())
      argument["json"] = Json::parse(each.json, nullptr, false);
    else
      argument["name"] = each.name;
    json.push_back(std::move(argument));
  }
  return json;
}

Result<Json> options_json(const std::vector<Option>& options) {
  Json json = Json::object();
  for (const auto& each : options) {
    Json value = Json::parse(each.json, nullptr, false);
    const bool is_size = each.name == "memory" || each.name == "gpu_memory";
    if (is_size && value.is_string()) {
      const auto size = parse_size(value.get<std::string>());
      if (!size) return size.error();
      value = *size;
    }
    json[each.name] = std::move(value);
  }
  return json;
}

}  // namespace

int Shell::use(const std::vector<std::string>& words) {
  if (words.empty()) {
    return complain(
        failure(ErrorCode::invalid_argument,
                "use: expected PROGRAM ARGUMENTS…, the path of a program that uses Mobula"));
  }
  const auto cluster = find_cluster(line_);
  if (!cluster) return complain(cluster.error());
  // The running program stays until the new one has described itself.
  HeldProgram previous = take_program();
  const int code = start_program(words, *cluster);
  if (code != exit_done) put_back(std::move(previous));
  return code;
}

int Shell::start_program(const std::vector<std::string>& words, const ClusterAddress& cluster) {
  Fd output;
  if (interactive_) {
    // Its output appears above the edited line.
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
      return complain(errno_failure("create a pipe", errno), exit_failed);
    output_ = Fd(ends[0]);
    output = Fd(ends[1]);
    ::fcntl(output.get(), F_SETFL, 0);
  }
  auto started = UserProgram::start(words, cluster, line_.state_dir, output.get());
  if (!started) return complain(started.error());
  program_.emplace(std::move(*started));
  const auto described = request_program({{"do", "describe"}});
  if (!described) return complain(described.error());
  for (const auto& each : (*described)["functions"])
    names_.functions.push_back(each.value("name", std::string()));
  for (const auto& each : (*described)["actors"]) {
    names_.classes.push_back(each.value("name", std::string()));
    auto& methods = methods_[names_.classes.back()];
    for (const auto& method : each["methods"])
      methods.push_back(method.value("name", std::string()));
  }
  std::fprintf(stderr, "%s: %zu functions, %zu class%s of actors; \\d lists them\n",
               words.front().c_str(), names_.functions.size(), names_.classes.size(),
               names_.classes.size() == 1 ? "" : "es");
  return exit_done;
}

Shell::HeldProgram Shell::take_program() {
  HeldProgram held{std::nullopt, std::move(output_), std::exchange(output_text_, {}), names_,
                   methods_};
  if (program_) held.program.emplace(std::move(*program_));
  forget_program();
  return held;
}

void Shell::put_back(HeldProgram held) {
  forget_program();
  if (held.program) program_.emplace(std::move(*held.program));
  output_ = std::move(held.output);
  output_text_ = std::move(held.output_text);
  names_ = std::move(held.names);
  methods_ = std::move(held.methods);
}

void Shell::forget_program() {
  program_.reset();
  output_.reset();
  output_text_.clear();
  names_.functions.clear();
  names_.classes.clear();
  names_.methods.clear();
  methods_.clear();
  names_.results.clear();
  names_.actors.clear();
}

Result<Json> Shell::request_program(const Json& request) {
  if (!program_)
    return failure(ErrorCode::invalid_argument, "no program; `use PROGRAM` selects one");
  return program_->request(request,
                           [this](int fd, short events) { return wait_ready(fd, events); });
}

// Waits for input for one second or until Ctrl-C, and prints the program's output.
bool Shell::wait_ready(int fd, short events) {
  if (interrupts_.raised()) return false;
  std::array<pollfd, 3> items{
      {{fd, events, 0}, {interrupts_.fd(), POLLIN, 0}, {output_.get(), POLLIN, 0}}};
  const int ready = ::poll(items.data(), items.size(), 1000);
  if (ready < 0 && errno != EINTR) return false;
  for (int lines = 0; lines < most_lines; ++lines) {
    const auto line = output_line();
    if (!line) break;
    std::fprintf(stderr, "%s\n", printable(*line).c_str());
  }
  return !interrupts_.raised();
}

std::optional<std::string> Shell::output_line() {
  for (;;) {
    const auto end = output_text_.find('\n');
    if (end != std::string::npos || output_text_.size() > longest_output_line) {
      std::string line = output_text_.substr(0, end);
      output_text_.erase(0, end == std::string::npos ? end : end + 1);
      return line;
    }
    if (!output_) return std::nullopt;
    std::array<char, 4096> block;
    const ssize_t count = ::read(output_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) output_.reset();
    if (count <= 0) {
      if (count == 0 && !output_text_.empty()) return std::exchange(output_text_, {});
      return std::nullopt;
    }
    output_text_.append(block.data(), static_cast<std::size_t>(count));
  }
}

int Shell::call(const Call& call) {
  const auto options = options_json(call.options);
  if (!options) return complain(options.error());
  const std::string name = call.let.empty() ? "_" : call.let;
  Json request = {{"do", call.object.empty() ? "call" : "method"}, {"as", name}};
  request[call.object.empty() ? "function" : "method"] = call.function;
  if (!call.object.empty()) request["actor"] = call.object;
  request["arguments"] = arguments_json(call.arguments, jobs_);
  request["options"] = *options;
  const auto answer = request_program(request);
  if (!answer) return complain(answer.error());
  if (!answer->value("ok", false)) return refused(*answer);
  if (call.let.empty()) return show(name);
  jobs_.erase(name);
  if (std::ranges::find(names_.results, name) == names_.results.end())
    names_.results.push_back(name);
  return exit_done;
}

int Shell::make_actor(const MakeActor& actor) {
  const auto options = options_json(actor.options);
  if (!options) return complain(options.error());
  const auto answer = request_program({{"do", "create"},
                                       {"as", actor.name},
                                       {"class", actor.class_name},
                                       {"arguments", arguments_json(actor.arguments, jobs_)},
                                       {"options", *options}});
  if (!answer) return complain(answer.error());
  if (!answer->value("ok", false)) return refused(*answer);
  last_id_ = answer->value("actor_id", std::string());
  if (std::ranges::find(names_.actors, actor.name) == names_.actors.end())
    names_.actors.push_back(actor.name);
  names_.methods[actor.name] = methods_[actor.class_name];
  return exit_done;
}

// Repeats the query until the value is available: each query is answered soon, and Ctrl-C ends
// them.
int Shell::show(const std::string& name) {
  Progress progress(true);
  PendingValue value(line_, name == "_" ? "" : name);
  const Time sent_at = monotonic_now();
  for (;;) {
    const auto answer = request_program({{"do", "get"}, {"name", name}});
    if (answer && answer->value("pending", false)) {
      value.show(progress, *answer, monotonic_now() - sent_at);
      continue;
    }
    progress.clear();
    if (!answer && answer.error().code == ErrorCode::cancelled) {
      std::fprintf(stderr, "mobula: the call continues; `get %s` waits for it again\n",
                   name.c_str());
      return exit_interrupted;
    }
    if (!answer) return complain(answer.error());
    if (!answer->value("ok", false)) return refused(*answer);
    return print(answer->value("value", Json()));
  }
}

int Shell::kill(const std::string& name) {
  const auto answer = request_program({{"do", "kill"}, {"name", name}});
  if (!answer) return complain(answer.error());
  if (!answer->value("ok", false)) return refused(*answer);
  std::erase(names_.actors, name);
  names_.methods.erase(name);
  return exit_done;
}

int Shell::print(const Json& value) const {
  std::string text = output_format_ == OutputFormat::yaml
                         ? to_yaml(value)
                         : escaped_controls(json_text(value)) + "\n";
  if (interactive_ && output_format_ == OutputFormat::table && text.size() > longest_value) {
    const std::size_t all = text.size() - 1;
    std::size_t cut = longest_value;
    // Between characters.
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
    text = text.substr(0, cut) + fmt::format("…\n({} bytes; \\o json prints all)\n", all);
  }
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? exit_done
                                                                           : exit_failed;
}

int Shell::list_callables() {
  const auto answer = request_program({{"do", "describe"}});
  if (!answer) return complain(answer.error());
  Json document = *answer;
  document.erase("ok");
  document.erase("interruptible");
  if (output_format_ != OutputFormat::table && output_format_ != OutputFormat::wide)
    return print(document);
  TextTable table;
  table.add({"NAME", "ARGUMENTS", "RESULT"});
  const auto row = [&table](const std::string& name, const Json& each) {
    table.add({name, "(" + joined(each["parameters"]) + ")",
               each.value("note", each.value("result", std::string("-")))});
  };
  for (const auto& each : document["functions"]) row(each.value("name", std::string()), each);
  for (const auto& each : document["actors"]) {
    const std::string name = each.value("name", std::string());
    for (const auto& parameters : each["constructors"])
      table.add({"actor " + name, "(" + joined(parameters) + ")", "-"});
    for (const auto& method : each["methods"])
      row("  " + name + "." + method.value("name", std::string()), method);
  }
  return std::fputs(table.text().c_str(), stdout) >= 0 ? exit_done : exit_failed;
}

// ---- completion --------------------------------------------------------------------------------

std::vector<std::string> Shell::live_ids(const std::string& kind) { return ids_of(line_, kind); }

Completion Shell::completion(const std::string& before) {
  return complete(before, tree_, names_, true);
}

}  // namespace mobula::internal::cli::repl
