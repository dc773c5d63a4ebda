#include "client/core/refs/unread_errors.h"

#include <utility>

#include "client/core/client_core.h"
#include "protocol/codec/codec.h"

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

// Records failures of user code and of its process. Other failures are their consequences, or
// intended.
void ClientCore::note_error(TaskId task, const TaskRow& row, const Results& results) {
  if (row.call.form->num_returns == 0 || row.cancelled || results.empty()) return;
  const ValueRecord& value = results.front();
  if (!value.is_error || value.bytes.empty()) return;
  const auto error = decode<ErrorRecord>(value.bytes.bytes());
  if (!error) return;
  const bool is_own = error->kind == ErrorKind::task || error->kind == ErrorKind::worker_crashed ||
                      error->kind == ErrorKind::out_of_memory;
  if (!is_own) return;
  std::string text = "task " + row.call.form->name;
  if (error->kind == ErrorKind::task && answered_.pid != 0 && row.executor.empty()) {
    text += " in process " + std::to_string(answered_.pid) + " on node " + answered_.node.brief();
  }
  text += " failed: ";
  if (!error->remote_type.empty()) text += error->remote_type + ": ";
  unread_.add(task, text + error->text);
}

void ClientCore::on(const ErrorRead& event) {
  if (const auto* row = objects_.find(event.object)) unread_.read(row->creator);
}

bool ClientCore::is_unread(ObjectId object) const {
  const auto* row = objects_.find(object);
  return row != nullptr && row->ready && row->value->is_error && unread_.contains(row->creator);
}

}  // namespace mobula::internal::client
