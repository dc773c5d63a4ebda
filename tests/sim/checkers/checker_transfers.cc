// Chunks in transit: each chunk is requested once at a time and arrives once, from an agent that
// has it. Bytes in flight stay within their limits. No object becomes readable while a chunk is
// missing.
#include "sim/agent_role.h"

namespace mobula::internal::sim {

void Checkers::chunk_requested(Agent& agent, const worker::FetchBulk& request,
                               const std::map<std::uint64_t, worker::FetchBulk>& under_way) {
  const worker::WorkerOptions limits = agent_options(world_);
  std::uint64_t bytes = request.size_bytes;
  std::size_t of_source = 1;
  for (const auto& [chunk, other] : under_way) {
    bytes += other.size_bytes;
    if (other.from.node == request.from.node) ++of_source;
    const bool twice =
        chunk == request.chunk || (other.pull == request.pull && other.offset == request.offset);
    if (!twice) continue;
    world_.violation("transfers", agent.name() + " asks for bytes that are on their way already");
  }
  if (bytes > limits.bulk_bytes_in_flight && !under_way.empty()) {
    world_.violation("transfers", agent.name() + " has asked for " + std::to_string(bytes) +
                                      " bytes, more than may be under way");
  }
  if (of_source > limits.bulk_chunks_per_source) {
    world_.violation("transfers",
                     agent.name() + " asks one node for more chunks at once than it may");
  }
}

void Checkers::chunk_read(Agent& agent, Agent& source, const worker::FetchBulk& request,
                          const Content* content) {
  if (content != nullptr) return;
  world_.violation("transfers", agent.name() + " reads from " + source.name() + " at " +
                                    std::to_string(request.offset) + ", which is not written yet");
}

void Checkers::chunk_written(Agent& agent, const worker::FetchBulk& request, const Arriving& here,
                             const Content& content) {
  if (here.parts.contains(request.offset)) {
    world_.violation("transfers", agent.name() + " gets the bytes at " +
                                      std::to_string(request.offset) + " twice");
  }
  if (here.content.object != content.object) {
    world_.violation("transfers", agent.name() + " mixes bytes of object " +
                                      here.content.object.brief() + " with those of object " +
                                      content.object.brief());
  }
}

void Checkers::is_whole(Agent& agent) {
  if (agent.arriving().empty()) return;
  for (const auto& [object, row] : agent.core().objects().objects()) {
    if (row.state != ObjectState::sealed) continue;
    const auto at = agent.arriving().find(
        {row.location.slab.bits().low, static_cast<std::int64_t>(row.location.offset)});
    if (at == agent.arriving().end() || at->second.content.object != object) continue;
    world_.violation("transfers", agent.name() + " takes object " + object.brief() +
                                      " for whole, of which a part is missing");
  }
}

}  // namespace mobula::internal::sim
