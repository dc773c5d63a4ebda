#include "client/core/refs/stream_reads.h"

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_left("client.reader_left_a_stream");
const CoverageMark mark_slower("client.slower_reader_of_a_stream");

}  // namespace

bool StreamReads::note_taken(const RefRecord& position, const StreamLink& link, ObjectId next) {
  if (!accepted_) return false;
  auto [row, fresh] = rows_.ensure(link.stream);
  if (fresh) {
    row->stream = position;
    row->stream.object = link.stream;
  }
  if (link.index < row->taken) {
    mark_slower.hit();
    return false;
  }
  if (!fresh) streams_.erase(row->next);
  streams_.insert(next, link.stream);
  row->next = next;
  row->taken = link.index + 1;
  row->unreported_bytes += link.size_bytes;
  // The first report makes the process a reader. The others are batched as in ItemStreams.
  const std::uint64_t batch = std::max<std::uint64_t>(1, link.window / 2);
  const bool due = row->reported == 0 || row->taken - row->reported >= batch ||
                   row->unreported_bytes >= stream_window_bytes / 2;
  if (due) report(*row);
  return true;
}

void StreamReads::report(Row& row) {
  row.reported = row.taken;
  row.unreported_bytes = 0;
  step_.send_to_agent(ReaderMoved{row.stream, row.taken});
}

void StreamReads::note_left(ObjectId next) {
  const ObjectId* found = streams_.find(next);
  if (found == nullptr) return;
  mark_left.hit();
  const ObjectId stream = *found;
  step_.send_to_agent(ReaderMoved{rows_.at(stream).stream, 0});
  rows_.erase(stream);
  streams_.erase(next);
}

void StreamReads::restate() {
  for (auto& [stream, row] : rows_) report(row);
}

}  // namespace mobula::internal::client
