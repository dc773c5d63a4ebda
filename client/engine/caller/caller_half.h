// The half of a process that submits calls: the client core, and the state that its commands leave
// for the threads that wait, such as reserved memory and replies of the head. The engine steps the
// core, and carries out the commands that need a ring, a socket, or the loop.
// Thread: owner, under the engine's lock.
// Not: I/O and waits (ProcessEngine), tensors that this process holds (LocalTensors).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "client/core/client_core.h"
#include "client/engine/step_events.h"
#include "client/engine/tensors/object_mappings.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::client {

class CallerHalf {
 public:
  CallerHalf(const ClientOptions& options, StepEvents& events) : events_(events), core_(options) {}
  // Records the inputs of the core from now on.
  Result<void> record(const RecordOptions& options, const std::string& role);
  void flush_recording() {
    if (recorder_) recorder_->flush();
  }

  Recorder* recorder() { return recorder_.get(); }  // null: none

  std::optional<Time> next_deadline() const { return core_.next_deadline(); }
  // Changes a count without a step. False if the change must be a step, because it has further
  // effects, or because a recording must contain it.
  bool counted(bool (ClientCore::*quietly)(ObjectId), ObjectId object) {
    const bool recorded = recorder_ && recorder_->recording();
    return !recorded && (core_.*quietly)(object);
  }
  // The engine takes the changes that must be steps with the running step or the next settle().
  void add_retain(ObjectId object) {
    if (!counted(&ClientCore::retain_quietly, object)) events_.add(RetainRef{object});
  }
  void add_release(ObjectId object) {
    if (!counted(&ClientCore::release_quietly, object)) events_.add(ReleaseRef{object});
  }
  void add_unwant(ObjectId object) {
    if (!counted(&ClientCore::unwant_quietly, object)) events_.add(UnwantObject{object});
  }
  ClientCore& core() { return core_; }
  const ClientCore& core() const { return core_; }

  // ---- commands of the core
  // A payload is small and is written at once. A mapped value is copied at once, because no other
  // process can copy it. In other cases a thread waits for the memory.
  void carry_out(SpaceReserved&& command);
  void carry_out(const ValueSealed& command);
  void carry_out(HandedOver&& command) { handed_over_ = std::move(command); }
  void carry_out(const DropLocation& command) { mappings_.drop_view(command.object); }
  // Any reply of the head, but no request.
  void carry_out(HeadAnswered&& command);

  // ---- messages of the agent
  // Precedes the core's step with the message.
  void receiving(const AgentToProcess& message, std::vector<Fd> fds) {
    mappings_.take_descriptor(message, std::move(fds));
  }
  // Follows the step with FetchObjectReply: the core may have dropped the object in between.
  void fetched(ObjectId object);
  void unmap(std::uint64_t slab) { mappings_.unmap(slab); }
  void lose_store() { mappings_.lose_store(); }
  void unmap_lost() {
    if (!core_.writing()) mappings_.unmap_lost();
  }

  // ---- storage
  // True if the reply to ReserveSpace arrived.
  bool has_reply(ObjectId object) const { return reserved_.contains(object); }
  // Takes the reply; the object must have one.
  Result<std::span<std::byte>> take_reserved(ObjectId object, std::int64_t size_bytes);
  void expect_sealed(ObjectId object) { sealed_[object] = false; }
  bool is_sealed(ObjectId object) const { return sealed_.at(object); }
  void forget_sealed(ObjectId object) { sealed_.erase(object); }
  // The bytes of an object that is readable here according to the core.
  std::optional<SlabView> view(ObjectId object) const { return mappings_.view(object); }
  HandedOver take_handed_over() { return std::exchange(handed_over_, {}); }

  // ---- replies of the head
  // Numbers the request, and expects its reply.
  std::uint64_t expect_reply(ProcessToHead& question);
  bool has_reply(std::uint64_t request) const { return answers_.at(request).has_value(); }
  std::optional<HeadToProcess> take_reply(std::uint64_t request);
  // With get_if_exists: expects a report of the actor that has the name of `wanted`.
  void expect_found(ActorId wanted) { found_.try_emplace(wanted); }
  bool found_instead(ActorId wanted) const { return found_.at(wanted).has_value(); }
  // Ends the expectation. The caller owns one reference to the handle of the actor in the report.
  std::optional<FindActorReply> take_found(ActorId wanted);
  // Requests that the head takes the name from an actor that exits. A repeated call resends it.
  // NameReleased of the callee follows.
  void release_name(FindActor question);
  // The job's admission by the head, or its rejection. Empty until the head replies.
  const std::optional<Result<StartJobReply>>& job_answer() const { return job_answer_; }

 private:
  StepEvents& events_;
  ClientCore core_;
  std::unique_ptr<Recorder> recorder_;
  ObjectMappings mappings_;
  std::map<ObjectId, SpaceReserved> reserved_;
  std::map<ObjectId, bool> sealed_;  // awaited seals
  std::uint64_t next_request_ = 1;
  std::uint64_t name_release_ = 0;  // number of the request of release_name; 0: not sent
  std::map<std::uint64_t, std::optional<HeadToProcess>> answers_;
  std::map<ActorId, std::optional<FindActorReply>> found_;  // reports that a caller expects
  HandedOver handed_over_;
  std::optional<Result<StartJobReply>> job_answer_;
};

}  // namespace mobula::internal::client
