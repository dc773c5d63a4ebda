#include "client/core/refs/unread_errors.h"

#include <utility>

namespace mobula::internal::client {

void UnreadErrors::add(TaskId task, std::string text) {
  if (texts_.size() >= max_kept) {
    ++further_;
    return;
  }
  if (text.size() > max_text_bytes) text = text.substr(0, max_text_bytes) + " …";
  texts_.insert_or_assign(task, std::move(text));
}

std::string UnreadErrors::report() const {
  const std::uint64_t all = texts_.size() + further_;
  if (all == 0) return {};
  std::string text = std::to_string(all) + (all == 1 ? " failure was" : " failures were") +
                     " never read (unhandled errors); get() or try_get() on the ref reads one:";
  std::size_t shown = 0;
  for (const auto& [task, each] : texts_) {
    if (shown++ == max_reported) break;
    text += "\n    " + each;
  }
  if (all > max_reported) text += "\n    and " + std::to_string(all - max_reported) + " more";
  return text;
}

}  // namespace mobula::internal::client
