#include "cli/commands/timeline/timeline_command.h"

#include <fmt/format.h>

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <span>

#include "cli/commands/timeline/otlp_trace.h"
#include "cli/commands/timeline/timeline_trace.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/otlp_client.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t spans_per_request = 2000;
constexpr int export_interval_ms = 5000;

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

struct Spans {
  Json timeline;
  std::vector<ProcessSpans> processes;
};

Result<Spans> read_spans(HeadQuery& query, const std::string& job) {
  auto timeline = query.request("timeline", "", job);
  if (!timeline) return timeline.error();
  const std::string bytes = query.bytes();
  auto spans = decode<std::vector<ProcessSpans>>(std::as_bytes(std::span(bytes)));
  if (!spans) return spans.error();
  for (const auto& warning : timeline->value("warnings", Json::array())) {
    std::fprintf(stderr, "mobula: %s\n", warning.get<std::string>().c_str());
  }
  return Spans{std::move(*timeline), std::move(*spans)};
}

// Sends the calls as OTLP traces. A failed request is repeated if new calls follow.
int export_spans(HeadQuery& query, const std::string& job, const CommandLine& line) {
  const auto receiver = parse_otlp_url(line.otlp_url);
  if (!receiver) return complain(receiver.error(), exit_wrong_use);
  SentSpans sent;
  for (;;) {
    const auto spans = read_spans(query, job);
    if (!spans) return complain(spans.error());
    SentSpans present = sent;
    std::size_t count = 0;
    Result<void> posted;
    for (const auto& batch :
         otlp_batches(spans->timeline, spans->processes, spans_per_request, present)) {
      posted = post_otlp(*receiver, batch.json);
      if (!posted) break;
      count += batch.spans;
    }
    if (!posted) {
      const int code = complain(posted.error());
      if (!line.follow) return code;
    } else {
      sent = std::move(present);
    }
    if (count > 0 || !line.follow) {
      std::fprintf(stderr, "mobula: sent %zu calls to %s%s\n", count, receiver->origin.c_str(),
                   receiver->path.c_str());
    }
    if (!line.follow) return exit_done;
    ::poll(nullptr, 0, export_interval_ms);
  }
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
  if (!line.otlp_url.empty()) return export_spans(query, job, line);
  const auto spans = read_spans(query, job);
  if (!spans) return complain(spans.error());
  const Trace trace = trace_of(spans->timeline, spans->processes);
  if (line.output_file == "-") return print(trace.json);
  const std::string path = line.output_file.empty() ? name_by_time() : line.output_file;
  if (const auto written = write_trace(path, trace.json); !written)
    return complain(written.error(), exit_failed);
  if (!for_people(line))
    return print(report_of(path, trace.counts, spans->timeline.value("warnings", Json::array())),
                 line);
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
