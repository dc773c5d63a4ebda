#include "cli/commands/tune/tune_commands.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/text/json_writer.h"
#include "cli/commands/tune/tune_control.h"
#include "cli/commands/tune/tune_documents.h"
#include "cli/commands/tune/tune_files.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/log_lines.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/output/screen.h"
#include "cli/output/table_columns.h"
#include "cli/output/text_table.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t status_rows = 20;

tune::ExperimentLocation location_of(const CommandLine& line) {
  return {line.tune.storage.empty() ? tune::default_storage() : line.tune.storage, line.tune.name};
}

// Prints a list with the columns of `kind`.
int print_list(Result<Json> list, const CommandLine& line, const std::string& kind) {
  if (!list) return complain(list.error());
  const bool empty = is_empty_table(*list, line);
  if (for_people(line)) shorten_numbers(*list);
  if (line.output == OutputFormat::name && kind == "trials") {
    std::string names;
    for (const auto& each : (*list)["items"]) names += json_text(each["trial"]) + "\n";
    return print(names);
  }
  const int code = print(std::move(*list), line, kind);
  if (empty && code == exit_done) note_empty(kind, line);
  return code;
}

int print_document(const Result<Json>& document, const CommandLine& line,
                   std::string (*page)(const Json&, bool)) {
  if (!document) return complain(document.error());
  if (!for_people(line)) return print(*document, line);
  return print_page(page(*document, colored(line)), line);
}

std::string table_of(const Json& items, const std::string& kind, bool is_colored) {
  Json shown = {{"items", items}};
  shorten_numbers(shown);
  TableFlags style;
  style.colored = is_colored;
  return format_document(std::move(shown), OutputFormat::table, kind, style, 0).value();
}

std::string text_of(const Json& value) {
  Json shown = value;
  shorten_numbers(shown);
  return printable(shown.is_string() ? shown.get<std::string>() : json_text(shown));
}

std::string state_text(const Json& state, bool is_colored) {
  return painted_state(state.get_ref<const std::string&>(), is_colored);
}

std::string params_text(const Json& params) {
  std::string text;
  for (const auto& [name, value] : params.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", printable(name), text_of(value));
  }
  return text;
}

std::string status_page(const Json& status, bool is_colored) {
  std::string counts;
  for (const auto& [state, count] : status["by_state"].items()) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", json_text(count),
                          painted_state(state, is_colored));
  }
  std::string page = fmt::format("experiment {} is {}, {} trials{}{}\n", text_of(status["name"]),
                                 state_text(status["state"], is_colored),
                                 json_text(status["trials"]), counts.empty() ? "" : ": ", counts);
  if (const auto& reason = status["reason"]; !reason.get<std::string>().empty()) {
    page += fmt::format("reason: {}\n", text_of(reason));
  }
  if (const auto& controller = status["controller"]; !controller.get<std::string>().empty()) {
    page += fmt::format("controller: {}\n", text_of(controller));
  }
  if (!status["best_trial"].is_null()) {
    page += fmt::format("best: trial {} with {}={} ({}): {}\n", json_text(status["best_trial"]),
                        text_of(status["metric"]), text_of(status["best"]), text_of(status["mode"]),
                        params_text(status["best_params"]));
  }
  return page + "\n" + table_of(status["shown"], "trials", is_colored);
}

std::string trial_page(const Json& trial, bool is_colored) {
  std::string page =
      fmt::format("trial {} is {}, {} iterations, best {}, last {}\n", json_text(trial["trial"]),
                  state_text(trial["state"], is_colored), json_text(trial["iterations"]),
                  text_of(trial["best"]), text_of(trial["last"]));
  page += fmt::format("params: {}\n", params_text(trial["params"]));
  if (trial.contains("parent"))
    page += fmt::format("parent: trial {}\n", json_text(trial["parent"]));
  if (trial.contains("error")) {
    page += fmt::format("error: {}: {}\n", text_of(trial.value("error_kind", "unknown")),
                        text_of(trial["error"]));
  }
  page += "\n" + table_of(trial["attempt_list"], "attempts", is_colored);
  if (!trial["checkpoints"].empty()) {
    page += "\n" + table_of(trial["checkpoints"], "checkpoints", is_colored);
  }
  if (!trial["reports"].empty()) page += "\n" + table_of(trial["reports"], "reports", is_colored);
  return page;
}

std::string explanation_page(const Json& explanation, bool is_colored) {
  std::string page =
      fmt::format("trial {} is {}: {}\n", json_text(explanation["trial"]),
                  state_text(explanation["state"], is_colored), text_of(explanation["reason"]));
  if (const auto standing = explanation.find("standing"); standing != explanation.end()) {
    page += fmt::format("iteration {}: value {} is number {} of {}\n",
                        json_text((*standing)["iteration"]), text_of((*standing)["value"]),
                        json_text((*standing)["rank"]), json_text((*standing)["total"]));
    if (!(*standing)["better"].empty()) {
      page += "\n" + table_of((*standing)["better"], "better", is_colored);
    }
  }
  if (!explanation["decisions"].empty()) {
    page += "\n" + table_of(explanation["decisions"], "decisions", is_colored);
  }
  if (!explanation["attempts"].empty()) {
    page += "\n" + table_of(explanation["attempts"], "attempts", is_colored);
  }
  return page;
}

int show_status_of(const CommandLine& line) {
  const auto location = location_of(line);
  const auto status = experiment_document(location, status_rows);
  if (!status || !line.watch || !for_people(line) || !output_is_screen()) {
    return print_document(status, line, status_page);
  }
  return watch_on_screen(line.watch_seconds, [&](const Screen&, char) {
    const auto again = experiment_document(location, status_rows);
    return again ? status_page(*again, colored(line)) : "mobula: " + again.error().text + "\n";
  });
}

int list_trials(const CommandLine& line) {
  tune::TrialFilter filter;
  for (const auto& [name, value] : line.filters) {
    const auto state = tune::trial_state_of(value);
    if (name != "state" || !state) {
      return complain(failure(ErrorCode::invalid_argument,
                              fmt::format("--filter {}={}: give state= with pending, running, "
                                          "pausing, paused, terminated, or failed",
                                          name, value)));
    }
    filter.state = state;
  }
  filter.limit = static_cast<std::size_t>(line.tune.rows);
  filter.newest = filter.limit != 0;
  return print_list(trials_document(location_of(line), filter), line, "trials");
}

}  // namespace

int tune_command(const CommandLine& line) {
  const TuneFlags& flags = line.tune;
  const auto location = location_of(line);
  if (flags.action == "list")
    return print_list(experiments_document(location.storage), line, "experiments");
  if (flags.action == "status") return show_status_of(line);
  if (flags.action == "trials") return list_trials(line);
  if (flags.action == "best") {
    return print_list(best_document(location, static_cast<std::size_t>(flags.count)), line,
                      "trials");
  }
  if (flags.action == "show") {
    return print_document(trial_document(location, flags.trial), line, trial_page);
  }
  if (flags.action == "stop") return stop_experiment(location, flags);
  if (flags.action == "resume") return resume_experiment(location);
  if (flags.action == "replay") return replay_experiment(location, line);
  if (flags.action == "plot") return write_plots(location, flags);
  if (flags.action == "export") return export_experiment(location, flags);
  if (flags.action == "import") return import_study(location, line);
  return print_document(explanation_document(location, flags.trial), line, explanation_page);
}

}  // namespace mobula::internal::cli
