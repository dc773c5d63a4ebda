// Between worker agents: who holds which object where. Sequenced per pair of incarnations; the
// bytes themselves go over the bulk path. Plain structs; alternatives are wire numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/task.h"
#include "protocol/wire.h"

namespace mobula::internal {

// Producer's agent to home agent: a result of `owner` is sealed here and held for you.
// Answered by ResultTaken.
struct ResultStored {
  ObjectId object;
  JobId job;
  ProcessId owner;
  std::int64_t size_bytes = 0;
  bool is_error = false;
  std::vector<RefRecord> contained;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("object", &ResultStored::object), field("job", &ResultStored::job),
        field("owner", &ResultStored::owner), field("size_bytes", &ResultStored::size_bytes),
        field("is_error", &ResultStored::is_error), field("contained", &ResultStored::contained));
  }
  friend bool operator==(const ResultStored&, const ResultStored&) = default;
};

// `wanted` false: the owner is gone; the producer's agent drops its copy.
struct ResultTaken {
  ObjectId object;
  bool wanted = true;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ResultTaken::object), field("wanted", &ResultTaken::wanted));
  }
  friend bool operator==(const ResultTaken&, const ResultTaken&) = default;
};

// Some process of the sender's node holds the object. Answered by NodeHoldConfirmed.
struct NodeHold {
  ObjectId object;
  JobId job;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeHold::object), field("job", &NodeHold::job));
  }
  friend bool operator==(const NodeHold&, const NodeHold&) = default;
};

struct NodeHoldConfirmed {
  ObjectId object;
  bool known = true;  // false: the home does not know the object (any more)
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeHoldConfirmed::object),
                 field("known", &NodeHoldConfirmed::known));
  }
  friend bool operator==(const NodeHoldConfirmed&, const NodeHoldConfirmed&) = default;
};

struct NodeRelease {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeRelease::object));
  }
  friend bool operator==(const NodeRelease&, const NodeRelease&) = default;
};

// Where is it, and tell me when it exists. Answered by ObjectStatus once it is ready or lost.
struct AskObject {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &AskObject::object));
  }
  friend bool operator==(const AskObject&, const AskObject&) = default;
};

struct ObjectStatus {
  ObjectId object;
  std::int64_t size_bytes = 0;
  bool is_error = false;
  std::vector<RefRecord> contained;
  std::vector<NodeId> locations;  // nodes that have the bytes; empty with `failure`
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("object", &ObjectStatus::object), field("size_bytes", &ObjectStatus::size_bytes),
        field("is_error", &ObjectStatus::is_error), field("contained", &ObjectStatus::contained),
        field("locations", &ObjectStatus::locations), field("failure", &ObjectStatus::failure));
  }
  friend bool operator==(const ObjectStatus&, const ObjectStatus&) = default;
};

// May I read these bytes over the bulk path? Answered by PullReady with a one-time key.
struct PullRequest {
  std::uint64_t pull = 0;  // chosen by the asker
  ObjectId object;         // or, for a program file:
  Hash128 file;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullRequest::pull), field("object", &PullRequest::object),
                 field("file", &PullRequest::file));
  }
  friend bool operator==(const PullRequest&, const PullRequest&) = default;
};

struct PullReady {
  std::uint64_t pull = 0;
  std::int64_t size_bytes = 0;
  std::string token;  // 32 bytes: first bytes on the bulk connection
  std::string key;    // 32 bytes, AES-256-GCM; empty: plain on a trusted fabric
  std::optional<Failure> failure;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullReady::pull), field("size_bytes", &PullReady::size_bytes),
                 field("token", &PullReady::token), field("key", &PullReady::key),
                 field("failure", &PullReady::failure));
  }
  friend bool operator==(const PullReady&, const PullReady&) = default;
};

// To the home: the sender's bytes of the object are lost, as if its node had been.
struct CopyLost {
  ObjectId object;
  std::string cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &CopyLost::object), field("cause", &CopyLost::cause));
  }
  friend bool operator==(const CopyLost&, const CopyLost&) = default;
};

using PeerMessage =
    std::variant<ResultStored, ResultTaken, NodeHold, NodeHoldConfirmed, NodeRelease, AskObject,
                 ObjectStatus, PullRequest, PullReady, CopyLost>;

struct PeerFrame {
  ProcessId from;  // agent incarnations; a frame for another one is refused
  ProcessId to;
  Frame<PeerMessage> frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("from", &PeerFrame::from), field("to", &PeerFrame::to),
                 field("frame", &PeerFrame::frame));
  }
  friend bool operator==(const PeerFrame&, const PeerFrame&) = default;
};

}  // namespace mobula::internal
