// A head that does as the test says: admits agents, keeps one conversation, records what it hears.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cluster_files.h"
#include "protocol/messages.h"
#include "protocol/ticket.h"
#include "session/session.h"
#include "transport/bus.h"

namespace mobula::internal::worker {

class FakeHead {
 public:
  explicit FakeHead(EventLoop& loop) {
    BusOptions options;
    options.keys = keys_;
    options.allow = &allow_;
    BusCallbacks callbacks;
    callbacks.on_message = [this](PeerHandle from, const PeerOrigin&,
                                  std::span<const std::byte> bytes) { heard(from, bytes); };
    bus_ = Bus::create(loop, std::move(options), std::move(callbacks)).value();
    address_ = bus_->bind("127.0.0.1:0").value();
    allow_.allow(agent_keys_.public_key, "agent").value();
  }

  const std::string& address() const { return address_; }
  KeyFile key_file() const {
    KeyFile file;
    file.cluster = "test";
    file.role = "agent";
    file.head_curve_key = keys_.public_key;
    file.head_signing_key = signing_.public_key;
    file.public_key = agent_keys_.public_key;
    file.secret_key = agent_keys_.secret_key;
    return file;
  }
  const SigningKeys& signing() const { return signing_; }

  void say(HeadMessage message) {
    std::vector<Frame<HeadMessage>> frames;
    session_->send(monotonic_now(), std::move(message), frames);
    send(std::move(frames));
  }
  void say_bytes(const std::string& text) {
    ASSERT_TRUE(bus_->send(agent_, std::as_bytes(std::span(text.data(), text.size()))));
  }
  void refuse(RefusalCode code) {
    Refused refused{epoch_, incarnation_, code, "the test says so"};
    ASSERT_TRUE(bus_->send(agent_, encode(HeadToAgent(refused))));
    session_.reset();
  }

  // The last message of this kind that passes `accept`.
  template <class Message, class Accept>
  const Message* heard(Accept&& accept) const {
    for (auto at = said_.rbegin(); at != said_.rend(); ++at) {
      const auto* message = std::get_if<Message>(&*at);
      if (message != nullptr && accept(*message)) return message;
    }
    return nullptr;
  }
  template <class Message>
  const Message* heard() const {
    return heard<Message>([](const Message&) { return true; });
  }
  const std::vector<Register>& registrations() const { return registrations_; }
  const std::vector<Farewell>& farewells() const { return farewells_; }
  bool admits = true;

 private:
  void heard(PeerHandle from, std::span<const std::byte> bytes) {
    agent_ = from;
    auto message = decode<AgentToHead>(bytes).value();
    if (auto* enrol = std::get_if<Register>(&message)) return take(std::move(*enrol));
    if (auto* leave = std::get_if<Farewell>(&message)) return farewells_.push_back(*leave);
    auto& frame = std::get<AgentFrame>(message);
    if (!session_ || frame.incarnation != incarnation_) return;
    std::vector<Frame<HeadMessage>> frames;
    const bool has_message = frame.frame.message.has_value();
    auto said = session_->receive(monotonic_now(), std::move(frame.frame), frames);
    if (frames.empty() && has_message) frames.push_back(session_->acknowledgement());
    send(std::move(frames));
    if (said) said_.push_back(std::move(*said));
  }

  void take(Register enrol) {
    registrations_.push_back(enrol);
    if (!admits || session_) return;
    incarnation_ = enrol.address.incarnation;
    session_.emplace();
    Ticket ticket;
    ticket.principal = {enrol.role, "agent", {}};
    ticket.process = incarnation_;
    ticket.node = enrol.address.node;
    ticket.curve_key = enrol.address.public_key;
    ticket.delegated_key = enrol.delegated_key;
    ticket.expires_ms = wall_clock_ms() + 60'000;
    Registered answer;
    answer.head_epoch = epoch_;
    answer.incarnation = incarnation_;
    answer.ticket = sign_ticket(ticket, signing_);
    answer.head_signing_key = signing_.public_key;
    answer.settings.cluster_name = "test";
    ASSERT_TRUE(bus_->send(agent_, encode(HeadToAgent(answer))));
  }

  void send(std::vector<Frame<HeadMessage>> frames) {
    for (auto& frame : frames) {
      ASSERT_TRUE(bus_->send(
          agent_, encode(HeadToAgent(HeadFrame{epoch_, incarnation_, std::move(frame)}))));
    }
  }

  const CurveKeys keys_ = CurveKeys::generate().value();
  const CurveKeys agent_keys_ = CurveKeys::generate().value();
  const SigningKeys signing_ = SigningKeys::generate();
  AllowTable allow_;
  std::unique_ptr<Bus> bus_;
  std::string address_;
  PeerHandle agent_;
  ProcessId incarnation_;
  std::uint64_t epoch_ = 1;
  std::optional<Session<HeadMessage, AgentMessage>> session_;
  std::vector<Register> registrations_;
  std::vector<Farewell> farewells_;
  std::vector<AgentMessage> said_;
};

}  // namespace mobula::internal::worker
