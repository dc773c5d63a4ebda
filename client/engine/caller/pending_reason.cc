#include "client/engine/caller/pending_reason.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/engine/conversion.h"

namespace mobula::internal::client {
namespace {

using Json = nlohmann::json;

constexpr Duration head_timeout = 250ms;

}  // namespace

std::string why_pending(ProcessEngine& engine, std::span<const detail::RawId> objects) {
  std::size_t pending = 0;
  std::string reason;
  for (const detail::RawId each : objects) {
    const ObjectId object(bits(each));
    if (engine.core().settled(object)) continue;
    if (pending++ == 0) reason = engine.core().why_pending(monotonic_now(), object);
  }
  const std::string count = objects.size() == 1 ? ""
                                                : std::to_string(pending) + " of " +
                                                      std::to_string(objects.size()) +
                                                      " objects are not there; the first: ";
  return count + reason;
}

std::string why_not_placed(ProcessEngine& engine, ProcessEngine::Lock& lock,
                           std::span<const detail::RawId> objects) {
  const auto first = std::ranges::find_if_not(objects, [&engine](detail::RawId each) {
    return engine.core().settled(ObjectId(bits(each)));
  });
  if (first == objects.end()) return {};
  const std::string awaited = engine.core().awaited_placement(ObjectId(bits(*first)));
  if (awaited.empty()) return {};
  const auto answer =
      engine.query(lock, ReadState{0, "explain", awaited}, monotonic_now() + head_timeout);
  const auto* read = answer ? std::get_if<ReadStateReply>(&*answer) : nullptr;
  if (read == nullptr || !read->error.empty()) return {};
  const auto json = Json::parse(read->json, nullptr, false);
  const auto reason = json.is_object() ? json.value("reason", "") : std::string();
  if (reason.empty()) return {};
  // The rule that rejects the request on the first node; others often have the same one.
  const auto items = json.value("items", Json::array());
  const auto rule = items.empty() ? std::string() : items[0].value("reason", "");
  return "; the head: " + reason + (rule.empty() ? "" : " (" + rule + ")");
}

}  // namespace mobula::internal::client
