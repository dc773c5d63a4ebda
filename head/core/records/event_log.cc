#include "head/core/records/event_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_forgotten("head.event_forgotten");
const CoverageMark mark_counted("head.event_counted_again");

// Cuts between characters of UTF-8.
std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  text.resize(bytes);
  return text + "...";
}

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::debug: return "DEBUG";
    case Severity::info: return "INFO";
    case Severity::warning: return "WARNING";
    case Severity::error: return "ERROR";
  }
  return "UNKNOWN";
}

Speaker::Speaker(HeadTables& tables, const Principal& principal)
    : tables_(tables), before_(std::exchange(tables.events.speaker_, &principal)) {}

Speaker::~Speaker() { tables_.events.speaker_ = before_; }

std::int64_t EventLog::wall_ms() const {
  return tables_.wall_at_start_ms +
         (tables_.now - tables_.started_at) / std::chrono::milliseconds(1);
}

void EventLog::note(Severity severity, std::string_view kind, EventSubjects about,
                    std::string text) {
  const std::int64_t now_ms = wall_ms();
  ++noted_;
  text = cut(std::move(text), max_text_bytes);
  if (count_again(severity, kind, about, text, now_ms)) return;
  EventRow row;
  row.number = ++last_;
  row.at_ms = row.last_ms = now_ms;
  row.severity = severity;
  row.kind = kind;
  row.source = speaker_ == nullptr ? "head" : std::string(to_string(speaker_->role));
  if (speaker_ != nullptr) {
    row.principal = !speaker_->name.empty() ? cut(speaker_->name, max_text_bytes)
                    : speaker_->job.empty() ? ""
                                            : "job " + speaker_->job.brief();
  }
  row.about = about;
  row.text = std::move(text);
  unwritten_.push_back(row);
  if (unwritten_.size() > max_journalled) unwritten_.pop_front();
  store(std::move(row));
}

bool EventLog::count_again(Severity severity, std::string_view kind, const EventSubjects& about,
                           const std::string& text, std::int64_t now_ms) {
  Ring& ring = ring_of(severity);
  std::size_t scanned = 0;
  for (auto at = ring.rbegin(); at != ring.rend() && scanned < max_alike_scanned; ++at, ++scanned) {
    if (at->at_ms + alike_within_ms < now_ms) return false;
    if (at->severity != severity || at->kind != kind || at->about != about || at->text != text)
      continue;
    mark_counted.hit();
    ++at->count;
    at->last_ms = now_ms;
    return true;
  }
  return false;
}

void EventLog::store(EventRow row) {
  Ring& ring = ring_of(row.severity);
  const std::size_t bound = row.severity < Severity::warning ? max_ordinary : max_warnings;
  ring.push_back(std::move(row));
  if (ring.size() <= bound) return;
  mark_forgotten.hit();
  ++forgotten_;
  forgotten_through_ = std::max(forgotten_through_, ring.front().number);
  ring.pop_front();
}

void EventLog::restore(const EventRow& row) {
  last_ = std::max(last_, row.number);
  Ring& ring = ring_of(row.severity);
  // The journal returns rows in the order of their keys, which are reused.
  const auto later = [&](const EventRow& each) { return each.number > row.number; };
  const auto restored = ring.insert(std::find_if(ring.begin(), ring.end(), later), row);
  restored->kind = present_kind(row.kind);
}

void EventLog::begin() {
  restored_through_ = last_;
  note(Severity::info, "HEAD_STARTED", {},
       fmt::format(
           "the head has started, epoch {}; events that the one before it had not written are lost",
           tables_.epoch));
}

void EventLog::write() {
  for (std::size_t written = 0; !unwritten_.empty() && written < max_written_at_once; ++written) {
    const EventRow& row = unwritten_.front();
    tables_.journal.put("events", fmt::format("{:04}", row.number % max_journalled), encode(row));
    unwritten_.pop_front();
  }
}

std::vector<const EventRow*> EventLog::rows() const {
  std::vector<const EventRow*> rows;
  rows.reserve(ordinary_.size() + warnings_.size());
  for (const EventRow& row : ordinary_) rows.push_back(&row);
  for (const EventRow& row : warnings_) rows.push_back(&row);
  std::ranges::sort(rows, {}, &EventRow::number);
  return rows;
}

}  // namespace mobula::internal::head
