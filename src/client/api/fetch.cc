// The compiled half of get, wait, put and cancel.
#include <mobula/get.h>

#include <utility>

#include <mobula/errors.h>

namespace mobula::detail {

namespace {

std::vector<RawId> require_ids(std::span<const std::shared_ptr<const Anchor>> anchors,
                               const std::shared_ptr<Runtime>& runtime) {
  std::vector<RawId> ids;
  ids.reserve(anchors.size());
  for (const auto& anchor : anchors) ids.push_back(require_id(anchor, runtime));
  return ids;
}

}  // namespace

Answer<std::vector<StoredValue>> fetch(std::span<const std::shared_ptr<const Anchor>> anchors,
                                       const GetRequest& request) {
  const auto target = runtime();
  if (anchors.empty()) return std::vector<StoredValue>();
  const auto ids = require_ids(anchors, target);
  auto answer = target->get(ids, request);
  if (answer.ok() && answer.value().size() != ids.size()) {
    throw Error("get: the runtime gave " + std::to_string(answer.value().size()) + " values for " +
                std::to_string(ids.size()) + " refs");
  }
  return answer;
}

std::vector<bool> wait_for(std::span<const std::shared_ptr<const Anchor>> anchors,
                           const WaitOptions& options) {
  const auto target = runtime();
  check_wait(options, anchors.size());
  const auto ids = require_ids(anchors, target);
  const auto limit = static_cast<std::size_t>(options.num_returns);
  auto ready =
      target->wait(ids, limit, deadline_after(options.timeout), options.fetch_local).take();
  ready.resize(ids.size(), false);
  std::size_t counted = 0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (ready[i] && ++counted > limit) ready[i] = false;
  }
  return ready;
}

std::shared_ptr<const Anchor> put_value(const Outgoing& value, const PutOptions& options) {
  const auto target = runtime();
  auto answer = target->put(value, put_request(options));
  if (!answer.ok()) value.rethrow_failure();
  return Anchor::adopt(target, {RefKind::object, std::move(answer).take()});
}

void cancel_object(const std::shared_ptr<const Anchor>& anchor, const CancelOptions& options) {
  const auto target = runtime();
  require(target->cancel(require_id(anchor, target), options.force, options.recursive));
}

}  // namespace mobula::detail
