#include "cli/head_query.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/output/progress.h"
#include "protocol/messages/tool_documents.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration head_timeout = 30s;
constexpr Duration retry_backoff = 1s;

}  // namespace

Result<Json> HeadQuery::request(const std::string& verb, const std::string& kind,
                                const std::string& argument) {
  if (!client_) {
    const auto cluster = find_cluster(line_);
    if (!cluster) return cluster.error();
    auto opened = ToolClient::open(*cluster);
    if (!opened) return opened.error();
    client_.emplace(std::move(opened).value());
  }
  WaitProgress progress(fmt::format("the head's answer to '{}'", verb), line_.progress);
  client_->set_on_wait([&progress] { progress.poll(); });
  const auto text = client_->request(verb, kind, argument);
  client_->set_on_wait({});
  if (!text) return text.error();
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object())
    return failure(ErrorCode::corrupt, "read the reply of the head: not a JSON object");
  add_errors(json, client_->errors());
  return json;
}

Result<Json> HeadQuery::request_patiently(const std::string& verb, const std::string& kind,
                                          const std::string& argument) {
  const Time until = monotonic_now() + head_timeout;
  for (bool warned = false;;) {
    auto answer = request(verb, kind, argument);
    if (answer) return answer;
    const ErrorCode code = answer.error().code;
    const bool passes = code == ErrorCode::unavailable || code == ErrorCode::timed_out;
    if (!passes || monotonic_now() >= until) return answer;
    if (!std::exchange(warned, true)) {
      warn(fmt::format("{}; retrying for {} s", answer.error().text, head_timeout / 1s));
    }
    client_.reset();
    pause(retry_backoff);
  }
}

bool HeadQuery::changed() {
  const auto changes = request("changes");
  const std::string now = changes ? json_text(*changes) : std::string();
  return now.empty() || std::exchange(seen_, now) != now;
}

std::string HeadQuery::bytes() const {
  if (!client_) return {};
  const auto bytes = client_->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? exit_done : complain_of_output();
}

int print(Json document, const CommandLine& line) {
  return print(std::move(document), line, line.kind);
}

int print(Json document, const CommandLine& line, const std::string& kind) {
  const auto text = format_document(std::move(document), line.output, kind, style_of(line),
                                    line.table.cut ? terminal_width() : 0);
  return text ? print_page(*text, line) : complain(text.error());
}

bool colored(const CommandLine& line) {
  return for_people(line) && wants_colors(line.color, STDOUT_FILENO);
}

TableFlags style_of(const CommandLine& line) {
  TableFlags style = line.table;
  style.colored = colored(line);
  return style;
}

std::size_t terminal_width() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

bool for_people(const CommandLine& line) {
  return line.output == OutputFormat::table || line.output == OutputFormat::wide;
}

bool is_empty_table(const nlohmann::ordered_json& document, const CommandLine& line) {
  const auto items = document.find("items");
  return for_people(line) && items != document.end() && items->empty();
}

void note_empty(const std::string& what, const CommandLine& line) {
  const bool chosen = !line.filters.empty() || !line.labels.empty();
  std::fprintf(stderr, "mobula: no %s%s\n", what.c_str(), chosen ? " match the filters" : "");
}

void pause(Duration span) { ::poll(nullptr, 0, static_cast<int>(span / 1ms)); }

}  // namespace mobula::internal::cli
