// The compiled half of ObjectRefStream.
#include <mobula/object_ref_stream.h>

#include <utility>

#include <mobula/errors.h>

namespace mobula::detail {

Result<StreamStep> try_take_step(const std::shared_ptr<const Anchor>& position,
                                 const NextOptions& options) {
  const auto target = runtime();
  const RawId id = require_id(position.get(), target);
  auto answer = target->next_item(id, deadline_after(options.timeout));
  if (!answer.ok()) return answer.error();
  const NextItem& next = answer.value();
  if (next.ended) return StreamStep{};
  return StreamStep{Anchor::adopt(target, {RefKind::object, next.item}),
                    Anchor::adopt(target, {RefKind::object, next.next})};
}

StreamStep take_step(const std::shared_ptr<const Anchor>& position, const NextOptions& options) {
  return try_take_step(position, options).value();
}

bool is_step_ready(const std::shared_ptr<const Anchor>& position) {
  const Anchor* const anchor = position.get();
  WaitOptions options;
  options.timeout = Duration(0);
  return !wait_for({&anchor, 1}, options).empty();
}

}  // namespace mobula::detail
