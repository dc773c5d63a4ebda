#include "cli/commands/log_source.h"
#include "protocol/codec/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t part_bytes = 256u << 10;
constexpr Duration busy_backoff = 100ms;
constexpr int most_tries = 100;

// Retries for a while if the reader is too busy.
Result<Json> ask_for_part(HeadQuery& query, const std::string& verb, const std::string& kind,
                          const std::string& argument) {
  for (int tries = 1;; ++tries) {
    auto answer = query.ask_patiently(verb, kind, argument);
    if (answer || answer.error().code != ErrorCode::resource_exhausted || tries == most_tries)
      return answer;
    pause(busy_backoff);
  }
}

Result<LogChunk> ask_for_log(HeadQuery& query, const std::string& verb, const std::string& argument,
                             LogPosition& place) {
  const auto part = ask_for_part(query, verb, to_string(place), argument);
  if (!part) return part.error();
  const auto next = parse_log_position(part->value("next", std::string()));
  if (!next) return next.error();
  place = *next;
  return LogChunk{query.bytes(), part->value("left", std::uint64_t{0}),
                  part->value("lost", false) ? 1u : 0u, part->value("open", false)};
}

}  // namespace

LogSource LogSource::of_files(std::vector<std::string> paths) {
  return LogSource([paths = std::move(paths)](LogPosition& place) -> Result<LogChunk> {
    auto part = read_log(paths, place, part_bytes);
    if (!part) return part.error();
    place = part->next;
    LogChunk chunk;
    chunk.bytes.assign(reinterpret_cast<const char*>(part->bytes.data()), part->bytes.size());
    chunk.left = part->left;
    chunk.lost_bytes = part->lost ? 1 : 0;
    return chunk;
  });
}

LogSource LogSource::of_head(HeadQuery& query) {
  return LogSource(
      [&query](LogPosition& place) { return ask_for_log(query, "head_log", {}, place); });
}

LogSource LogSource::of_node(HeadQuery& query, std::string node, std::string log) {
  const Json argument = {{"node_id", std::move(node)}, {"log", std::move(log)}};
  return LogSource([&query, text = json_text(argument)](LogPosition& place) {
    return ask_for_log(query, "log", text, place);
  });
}

LogSource LogSource::of_job(HeadQuery& query, std::string job) {
  return LogSource([&query, job = std::move(job)](LogPosition& place) -> Result<LogChunk> {
    const auto part = ask_for_part(query, "job_log", fmt::format("{}", place.from), job);
    if (!part) return part.error();
    const std::string fault = part->value("fault", std::string());
    if (!fault.empty()) return failure(ErrorCode::not_found, fault);
    LogChunk chunk;
    chunk.bytes = query.bytes();
    const auto begin = part->value("from", std::uint64_t{0});
    const auto asked = static_cast<std::uint64_t>(place.from);
    chunk.lost_bytes = begin > asked ? begin - asked : 0;
    place.from = static_cast<std::int64_t>(begin + chunk.bytes.size());
    const auto end = part->value("end", begin + chunk.bytes.size());
    chunk.left = end - std::min(end, begin + chunk.bytes.size());
    const std::string state = part->value("job", Json::object()).value("state", std::string());
    chunk.open = state == "PENDING" || state == "RUNNING";
    return chunk;
  });
}

}  // namespace mobula::internal::cli
