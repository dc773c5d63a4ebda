// A head that the test controls: admits agents, keeps a session with each, and records its
// messages. Functions without an agent parameter refer to the last admitted agent.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/codec/messages.h"
#include "protocol/program/cluster_files.h"
#include "protocol/session/session.h"
#include "protocol/tickets/ticket.h"
#include "transport/bus/bus.h"

namespace mobula::internal::worker {

class FakeHead {
 public:
  explicit FakeHead(EventLoop& loop) {
    BusOptions options;
    options.keys = keys_;
    options.allow = &allow_;
    BusCallbacks callbacks;
    callbacks.on_message = [this](PeerHandle from, const PeerOrigin&,
                                  std::span<const std::byte> bytes) { received(from, bytes); };
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
    for (const char byte : signing_.public_key) {
      file.head_signing_key += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    file.public_key = agent_keys_.public_key;
    file.secret_key = agent_keys_.secret_key;
    return file;
  }
  const SigningKeys& signing() const { return signing_; }

  void say(HeadMessage message) { say(last_, std::move(message)); }
  void say(ProcessId agent, HeadMessage message) {
    std::vector<Frame<HeadMessage>> frames;
    agents_.at(agent).session.send(monotonic_now(), std::move(message), frames);
    send(agent, std::move(frames));
  }
  void say_bytes(const std::string& text) {
    ASSERT_TRUE(
        bus_->send(agents_.at(last_).peer, std::as_bytes(std::span(text.data(), text.size()))));
  }
  void refuse(RefusalCode code) {
    RegisterRejected refused{epoch_, last_, code, "rejected by the test"};
    ASSERT_TRUE(bus_->send(agents_.at(last_).peer, encode(HeadToAgent(refused))));
    agents_.erase(last_);
  }
  // Sends the address of every agent to every other one.
  void introduce() {
    for (const auto& [to, agent] : agents_) {
      PeersChanged news;
      for (const auto& [other, known] : agents_) {
        if (other != to) news.present.push_back(known.address);
      }
      say(to, news);
    }
  }

  // The last message of this kind that passes `accept`.
  template <class Message, class Accept>
  const Message* received(Accept&& accept) const {
    for (auto at = said_.rbegin(); at != said_.rend(); ++at) {
      const auto* message = std::get_if<Message>(&*at);
      if (message != nullptr && accept(*message)) return message;
    }
    return nullptr;
  }
  template <class Message>
  const Message* received() const {
    return received<Message>([](const Message&) { return true; });
  }
  const std::vector<RegisterRequest>& registrations() const { return registrations_; }
  const std::vector<AgentStopped>& farewells() const { return farewells_; }
  bool admits = true;
  void forget_agents_key() { allow_.remove(agent_keys_.public_key); }

 private:
  struct Agent {
    PeerHandle peer;
    AgentAddress address;
    Session<HeadMessage, AgentMessage> session;
  };

  void received(PeerHandle from, std::span<const std::byte> bytes) {
    auto message = decode<AgentToHead>(bytes).value();
    if (auto* enrol = std::get_if<RegisterRequest>(&message)) return take(from, std::move(*enrol));
    if (auto* leave = std::get_if<AgentStopped>(&message)) return farewells_.push_back(*leave);
    auto& frame = std::get<AgentFrame>(message);
    const auto at = agents_.find(frame.incarnation);
    if (at == agents_.end()) return;
    std::vector<Frame<HeadMessage>> frames;
    const bool has_message = frame.frame.message.has_value();
    Session<HeadMessage, AgentMessage>& session = at->second.session;
    auto said = session.receive(monotonic_now(), std::move(frame.frame), frames);
    if (frames.empty() && has_message) frames.push_back(session.acknowledgement());
    send(at->first, std::move(frames));
    if (said) said_.push_back(std::move(*said));
  }

  void take(PeerHandle from, RegisterRequest enrol) {
    registrations_.push_back(enrol);
    const ProcessId agent = enrol.address.incarnation;
    if (!admits || agents_.contains(agent)) return;
    last_ = agent;
    agents_.emplace(agent, Agent{from, enrol.address, {}});
    Ticket ticket;
    ticket.principal = {enrol.role, "agent", {}};
    ticket.process = agent;
    ticket.node = enrol.address.node;
    ticket.curve_key = enrol.address.public_key;
    ticket.delegated_key = enrol.delegated_key;
    ticket.expires_ms = wall_clock_ms() + 60'000;
    RegisterReply answer;
    answer.head_epoch = epoch_;
    answer.incarnation = agent;
    answer.ticket = sign_ticket(ticket, signing_);
    answer.head_signing_key = signing_.public_key;
    answer.settings.cluster_name = "test";
    ASSERT_TRUE(bus_->send(from, encode(HeadToAgent(answer))));
  }

  void send(ProcessId agent, std::vector<Frame<HeadMessage>> frames) {
    for (auto& frame : frames) {
      // Fails for an agent that has exited.
      (void)bus_->send(agents_.at(agent).peer,
                       encode(HeadToAgent(HeadFrame{epoch_, agent, std::move(frame)})));
    }
  }

  const CurveKeys keys_ = CurveKeys::generate().value();
  const CurveKeys agent_keys_ = CurveKeys::generate().value();
  const SigningKeys signing_ = SigningKeys::generate();
  AllowTable allow_;
  std::unique_ptr<Bus> bus_;
  std::string address_;
  ProcessId last_;
  std::uint64_t epoch_ = 1;
  std::map<ProcessId, Agent> agents_;
  std::vector<RegisterRequest> registrations_;
  std::vector<AgentStopped> farewells_;
  std::vector<AgentMessage> said_;
};

}  // namespace mobula::internal::worker
