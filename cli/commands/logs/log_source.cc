#include "cli/commands/logs/log_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/json_writer.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t log_chunk_bytes = 256u << 10;
constexpr Duration busy_backoff = 100ms;
constexpr int most_tries = 100;

// Retries for a while if the reader is too busy.
Result<Json> request_chunk(HeadQuery& query, const std::string& verb, const std::string& kind,
                           const std::string& argument) {
  for (int tries = 1;; ++tries) {
    auto answer = query.request_patiently(verb, kind, argument);
    if (answer || answer.error().code != ErrorCode::resource_exhausted || tries == most_tries)
      return answer;
    pause(busy_backoff);
  }
}

Result<LogChunk> read_log_chunk(HeadQuery& query, const std::string& verb,
                                const std::string& argument, LogPosition& position) {
  const auto reply = request_chunk(query, verb, to_string(position), argument);
  if (!reply) return reply.error();
  const auto next = parse_log_position(reply->value("next", std::string()));
  if (!next) return next.error();
  position = *next;
  return LogChunk{query.bytes(), reply->value("left", std::uint64_t{0}),
                  reply->value("lost", false) ? 1u : 0u, reply->value("open", false)};
}

}  // namespace

LogSource LogSource::of_files(std::vector<std::string> paths) {
  return LogSource([paths = std::move(paths)](LogPosition& position) -> Result<LogChunk> {
    auto reply = read_log(paths, position, log_chunk_bytes);
    if (!reply) return reply.error();
    position = reply->next;
    LogChunk chunk;
    chunk.bytes.assign(reinterpret_cast<const char*>(reply->bytes.data()), reply->bytes.size());
    chunk.left = reply->left;
    chunk.lost_bytes = reply->lost ? 1 : 0;
    return chunk;
  });
}

LogSource LogSource::of_head(HeadQuery& query) {
  return LogSource(
      [&query](LogPosition& position) { return read_log_chunk(query, "head_log", {}, position); });
}

LogSource LogSource::of_node(HeadQuery& query, std::string node, std::string log) {
  const Json argument = {{"node_id", std::move(node)}, {"log", std::move(log)}};
  return LogSource([&query, text = json_text(argument)](LogPosition& position) {
    return read_log_chunk(query, "log", text, position);
  });
}

LogSource LogSource::of_job(HeadQuery& query, std::string job) {
  return LogSource([&query, job = std::move(job)](LogPosition& position) -> Result<LogChunk> {
    const auto reply = request_chunk(query, "job_log", fmt::format("{}", position.from), job);
    if (!reply) return reply.error();
    const std::string fault = reply->value("fault", std::string());
    if (!fault.empty()) return failure(ErrorCode::not_found, fault);
    LogChunk chunk;
    chunk.bytes = query.bytes();
    const auto begin = reply->value("from", std::uint64_t{0});
    const auto requested = static_cast<std::uint64_t>(position.from);
    chunk.lost_bytes = begin > requested ? begin - requested : 0;
    position.from = static_cast<std::int64_t>(begin + chunk.bytes.size());
    const auto end = reply->value("end", begin + chunk.bytes.size());
    chunk.left = end - std::min(end, begin + chunk.bytes.size());
    const std::string state = reply->value("job", Json::object()).value("state", std::string());
    chunk.open = state == "PENDING" || state == "RUNNING";
    return chunk;
  });
}

}  // namespace mobula::internal::cli
