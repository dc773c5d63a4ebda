#include "client/engine/caller/caller_half.h"

#include "protocol/messages/core_records.h"

namespace mobula::internal::client {

Result<void> CallerHalf::record(const RecordOptions& options, const std::string& role) {
  RecordingHeader header;
  header.core = "client";
  header.role = role;
  header.incarnation = core_.options().process.bits();
  header.options = CoreRecords<ClientCore>::encode_options(core_.options());
  auto recorder = Recorder::start(options, std::move(header));
  if (!recorder) return recorder.error();
  recorder_ = std::move(*recorder);
  return {};
}

// ---- commands ----------------------------------------------------------------------------------

void CallerHalf::carry_out(SpaceReserved&& space) {
  if (space.failure || (space.payload.empty() && space.copy_of.slab == 0)) {
    const ObjectId object = space.object;
    reserved_.insert_or_assign(object, std::move(space));
  } else if (mappings_.fill(space)) {
    events_.add(ValueWritten{space.object, space.is_error, std::move(space.contained)});
  } else {
    events_.add(ValueUnreadable{space.object});
  }
}

void CallerHalf::carry_out(const ValueSealed& command) {
  if (const auto at = sealed_.find(command.object); at != sealed_.end()) at->second = true;
}

void CallerHalf::carry_out(HeadAnswered&& command) {
  HeadToProcess& answer = command.answer;
  std::uint64_t request = 0;
  if (const auto* found = std::get_if<FindActorReply>(&answer)) {
    request = found->request;
    if (request != 0 && request == name_release_) events_.add(executor::NameReleased{});
    const auto at = found_.find(found->wanted);
    const bool is_expected =
        found->wanted.empty() ? answers_.contains(request) : at != found_.end() && !at->second;
    if (found->found && found->actor != found->wanted && !is_expected)
      return events_.add(ReleaseRef{handle_id(found->actor)});
    if (is_expected && !found->wanted.empty()) at->second = *found;
  }
  if (const auto* read = std::get_if<ReadStateReply>(&answer)) request = read->request;
  if (auto* started = std::get_if<StartJobReply>(&answer)) job_answer_ = std::move(*started);
  if (auto* refused = std::get_if<RequestRejected>(&answer)) {
    job_answer_ = failure(ErrorCode::permission_denied, refused->why);
  }
  if (const auto at = answers_.find(request); request != 0 && at != answers_.end()) {
    at->second = std::move(answer);
  }
}

void CallerHalf::fetched(ObjectId object) {
  const auto* row = core_.object(object);
  if (row == nullptr || !row->readable) mappings_.drop_view(object);
}

// ---- storage and replies -----------------------------------------------------------------------

Result<std::span<std::byte>> CallerHalf::take_reserved(ObjectId object, std::int64_t size_bytes) {
  const SpaceReserved space = std::move(reserved_.extract(object).mapped());
  if (space.failure) return *space.failure;
  return mappings_.reserved(space.location, size_bytes);
}

std::uint64_t CallerHalf::expect_reply(ProcessToHead& question) {
  const std::uint64_t request = next_request_++;
  if (auto* find = std::get_if<FindActor>(&question)) find->request = request;
  if (auto* read = std::get_if<ReadState>(&question)) read->request = request;
  answers_[request] = std::nullopt;
  return request;
}

std::optional<HeadToProcess> CallerHalf::take_reply(std::uint64_t request) {
  return std::move(answers_.extract(request).mapped());
}

std::optional<FindActorReply> CallerHalf::take_found(ActorId wanted) {
  const auto found = found_.extract(wanted);
  return found ? found.mapped() : std::nullopt;
}

void CallerHalf::release_name(FindActor question) {
  if (name_release_ == 0) name_release_ = next_request_++;
  question.request = name_release_;
  events_.add(QueryHead{std::move(question)});
}

}  // namespace mobula::internal::client
