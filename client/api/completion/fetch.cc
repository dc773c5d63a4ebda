// The compiled half of get, wait, put and cancel.
#include <mobula/get.h>

#include <utility>

#include <mobula/errors.h>

namespace mobula::detail {

Done fetch(std::span<const std::shared_ptr<const Anchor>> anchors, const GetRequest& request,
           std::span<StoredValue> values) {
  const auto target = runtime();
  if (anchors.empty()) return std::nullopt;
  if (anchors.size() == 1) {
    const RawId id = require_id(anchors.front().get(), target);
    return target->get({&id, 1}, request, values);
  }
  std::vector<RawId> ids;
  ids.reserve(anchors.size());
  for (const auto& anchor : anchors) ids.push_back(require_id(anchor.get(), target));
  return target->get(ids, request, values);
}

std::size_t fetch_some(std::span<const std::shared_ptr<const Anchor>> anchors,
                       const GetRequest& request, std::span<StoredValue> values) {
  const auto target = runtime();
  std::vector<RawId> ids;
  ids.reserve(anchors.size());
  for (const auto& anchor : anchors) ids.push_back(require_id(anchor.get(), target));
  if (ids.empty()) return 0;
  return target->get_some(ids, request, values).take();
}

// Of many refs the first few are checked alone, because they are mostly the ready ones.
std::vector<std::size_t> wait_for(std::span<const Anchor* const> anchors,
                                  const WaitOptions& options) {
  constexpr std::size_t few = 64;
  const auto target = runtime();
  check_wait(options, anchors.size());
  const auto limit = static_cast<std::size_t>(options.num_returns);
  const auto deadline = deadline_after(options.timeout);
  std::vector<RawId> ids;
  std::vector<std::size_t> positions;
  const auto check = [&](std::size_t count, const Deadline& until) {
    ids.reserve(count);
    while (ids.size() < count) ids.push_back(require_id(anchors[ids.size()], target));
    const auto ready = target->wait(ids, std::min(limit, count), until, options.fetch_local).take();
    positions.clear();
    for (std::size_t i = 0; i < std::min(ready.size(), count) && positions.size() < limit; ++i) {
      if (ready[i]) positions.push_back(i);
    }
    return positions.size() == limit;
  };
  for (const Anchor* anchor : anchors) {
    if (anchor == nullptr) (void)require_id(anchor, target);
  }
  const bool is_found =
      limit <= few && anchors.size() > few && check(few, std::chrono::steady_clock::time_point());
  if (!is_found) check(anchors.size(), deadline);
  return positions;
}

std::shared_ptr<const Anchor> put_value(const Outgoing& value, const PutOptions& options) {
  const auto target = runtime();
  auto answer = target->put(value, put_request(options));
  if (!answer.ok()) value.rethrow_failure();
  return Anchor::adopt(target, {RefKind::object, std::move(answer).take()});
}

void cancel_object(const std::shared_ptr<const Anchor>& anchor, const CancelOptions& options) {
  const auto target = runtime();
  require(target->cancel(require_id(anchor.get(), target), options.force, options.recursive));
}

}  // namespace mobula::detail
