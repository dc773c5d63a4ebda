#include "cli/commands/timeline_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <span>

#include "cli/commands/timeline_trace.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string name_by_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return fmt::format("timeline-{}.json", std::string_view(text, size));
}

Result<void> write_trace(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return errno_failure("write " + path, errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) return errno_failure("write " + path, errno);
  return {};
}

// Describes a written trace for programs.
Json report_of(const std::string& path, const TraceCounts& counts, const Json& warnings) {
  Json item = {{"file", path},
               {"ran", counts.ran},
               {"submitted", counts.submitted},
               {"transfers", counts.transfers},
               {"forgotten", counts.forgotten}};
  return {{"apiVersion", "mobula/v1"},
          {"kind", "TimelineList"},
          {"items", Json::array({std::move(item)})},
          {"warnings", warnings}};
}

// Returns the complete id of a job, also by its name.
Result<std::string> job_id_of(HeadQuery& query, const std::string& given) {
  auto job = query.request("get", "jobs", given);
  if (!job) job = query.request("get", "submission", given);
  if (!job) return job.error();
  return job->value("job_id", given);
}

}  // namespace

int write_timeline(const CommandLine& line) {
  HeadQuery query(line);
  std::string job;
  if (!line.subject.empty()) {
    const auto whole = job_id_of(query, line.subject);
    if (!whole) return complain(whole.error());
    job = *whole;
  }
  const auto timeline = query.request("timeline", "", job);
  if (!timeline) return complain(timeline.error());
  const std::string bytes = query.bytes();
  const auto spans = decode<std::vector<ProcessSpans>>(std::as_bytes(std::span(bytes)));
  if (!spans) return complain(spans.error());
  const Trace trace = trace_of(*timeline, *spans);
  for (const auto& warning : timeline->value("warnings", Json::array())) {
    std::fprintf(stderr, "mobula: %s\n", warning.get<std::string>().c_str());
  }
  if (line.output_file == "-") return print(trace.json);
  const std::string path = line.output_file.empty() ? name_by_time() : line.output_file;
  if (const auto written = write_trace(path, trace.json); !written)
    return complain(written.error(), exit_failed);
  if (!for_people(line))
    return print(report_of(path, trace.counts, timeline->value("warnings", Json::array())), line);
  std::fprintf(
      stderr,
      "mobula: %s has %ju calls that ran, %ju that were submitted, and %ju transfers (%ju older "
      "entries of live processes are lost); open it at https://ui.perfetto.dev\n",
      path.c_str(), static_cast<std::uintmax_t>(trace.counts.ran),
      static_cast<std::uintmax_t>(trace.counts.submitted),
      static_cast<std::uintmax_t>(trace.counts.transfers),
      static_cast<std::uintmax_t>(trace.counts.forgotten));
  return exit_done;
}

}  // namespace mobula::internal::cli
