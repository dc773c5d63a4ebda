#include <gtest/gtest.h>

#include <array>
#include <string>

#include "matrix/cells.h"
#include "transport/bulk_fixture.h"
#include "transport/loop/loop_thread.h"

namespace mobula::internal {
namespace {

class BulkFetches : public BulkTest {};
INSTANTIATE_TEST_SUITE_P(Both, BulkFetches, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Sealed" : "Plain"; });

TEST_P(BulkFetches, TransfersHeaderAndBodyOfEverySize) {
  open_server();
  const auto client = make_client();
  const std::array<std::size_t, 9> sizes{
      0, 1, 1'000, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3'333'333, 8u << 20, 40u << 20};
  for (const std::size_t size : sizes) {
    Fetched got;
    ASSERT_TRUE(client->fetch(got.fetch(std::to_string(size))));
    ASSERT_TRUE(until([&] { return got.done.has_value(); })) << size;
    ASSERT_TRUE(got.done->ok()) << got.done->error().text;
    EXPECT_EQ(got.header, "header of " + std::to_string(size));
    ASSERT_EQ(got.space.size(), size);
    EXPECT_TRUE(std::equal(got.space.begin(), got.space.end(), source_.begin())) << size;
    EXPECT_TRUE(until([&] { return held_ == 0; }));
  }
  EXPECT_EQ(server_->counters().accepted, 1u) << "over one connection";
}

TEST_P(BulkFetches, ServesManyAtOnce) {
  open_server();
  const auto client = make_client();
  std::vector<Fetched> got(200);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(client->fetch(got[i].fetch(std::to_string(i * 1'001))));
  }
  ASSERT_TRUE(until([&] { return client->fetches() == 0; }));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i].done->ok());
    ASSERT_EQ(got[i].space.size(), i * 1'001);
    EXPECT_TRUE(std::equal(got[i].space.begin(), got[i].space.end(), source_.begin()));
  }
}

TEST_P(BulkFetches, AnswersLaterAndInAnyOrder) {
  open_server();
  const auto client = make_client();
  Fetched one;
  Fetched two;
  ASSERT_TRUE(client->fetch(one.fetch("one")));
  ASSERT_TRUE(client->fetch(two.fetch("two")));
  ASSERT_TRUE(until([&] { return requests_.size() == 2; }));
  serve(requests_[1].first, 2'000'000);
  ASSERT_TRUE(until([&] { return two.done.has_value(); }));
  EXPECT_FALSE(one.done.has_value());
  ASSERT_TRUE(server_->refuse(requests_[0].first, failure(ErrorCode::not_found, "no such object")));
  ASSERT_TRUE(until([&] { return one.done.has_value(); }));
  EXPECT_EQ(one.done->error(), failure(ErrorCode::not_found, "no such object"));
  EXPECT_EQ(server_->refuse(requests_[0].first, failure(ErrorCode::not_found, "")).error().code,
            ErrorCode::not_found)
      << "answered already";
}

TEST_P(BulkFetches, Cancelled_StopsBetweenChunks) {
  matrix::belongs_to(matrix::Part::cancelled, matrix::Column::staged, matrix::Proof::real);
  open_server();
  const auto client = make_client();
  Fetched got;
  Fetched next;
  const BulkFetchId id = client->fetch(got.fetch(std::to_string(40u << 20))).value();
  ASSERT_TRUE(client->fetch(next.fetch("1000")));
  ASSERT_TRUE(until([&] { return !got.space.empty() && got.space[8] == source_[8]; }));
  client->cancel(id);
  std::fill(got.space.begin(), got.space.end(), std::byte{0});
  ASSERT_TRUE(until([&] { return next.done.has_value(); }));
  EXPECT_TRUE(next.done->ok());
  EXPECT_FALSE(got.done.has_value()) << "a cancelled fetch has no completion";
  EXPECT_TRUE(std::all_of(got.space.begin(), got.space.end(),
                          [](std::byte each) { return each == std::byte{0}; }));
  EXPECT_LT(server_->counters().bytes_sent, 40u << 20);
  EXPECT_EQ(held_, 0);
  EXPECT_EQ(client->fetches(), 0u);
}

TEST_P(BulkFetches, CancelledBeforeReply_NotifiesServer) {
  open_server();
  const auto client = make_client();
  Fetched got;
  const BulkFetchId id = client->fetch(got.fetch("wait")).value();
  ASSERT_TRUE(until([&] { return requests_.size() == 1; }));
  client->cancel(id);
  ASSERT_TRUE(until([&] { return cancelled_.size() == 1; }));
  EXPECT_EQ(cancelled_[0], requests_[0].first);
  bool released = false;
  EXPECT_EQ(
      server_->reply(requests_[0].first, {}, {source_, [&] { released = true; }}).error().code,
      ErrorCode::not_found);
  EXPECT_TRUE(released);
  ASSERT_TRUE(until([&] { return client->fetches() == 0; }));
}

TEST_P(BulkFetches, NoMemoryForBody_FailsFetchOnly) {
  open_server();
  const auto client = make_client();
  Fetched got;
  BulkFetch fetch = got.fetch("5000000");
  fetch.on_header = [](std::span<const std::byte>, std::uint64_t) -> Result<std::span<std::byte>> {
    return failure(ErrorCode::resource_exhausted, "the arena is full");
  };
  ASSERT_TRUE(client->fetch(std::move(fetch)));
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  EXPECT_EQ(got.done->error().code, ErrorCode::resource_exhausted);
  Fetched next;
  ASSERT_TRUE(client->fetch(next.fetch("5000000")));
  ASSERT_TRUE(until([&] { return next.done.has_value(); }));
  EXPECT_TRUE(next.done->ok());
}

TEST_P(BulkFetches, LimitsNumberAndSize) {
  open_server();
  const auto client = make_client({.max_fetches = 2});
  std::array<Fetched, 3> got;
  ASSERT_TRUE(client->fetch(got[0].fetch("wait")));
  ASSERT_TRUE(client->fetch(got[1].fetch("wait")));
  EXPECT_EQ(client->fetch(got[2].fetch("wait")).error().code, ErrorCode::resource_exhausted);
  EXPECT_EQ(make_client()->fetch(got[2].fetch(std::string(65'537, 'x'))).error().code,
            ErrorCode::invalid_argument);
  Fetched largest;
  const auto other = make_client();
  ASSERT_TRUE(other->fetch(largest.fetch(std::string(65'536, 'x'))));
  ASSERT_TRUE(until([&] { return requests_.size() == 3; }));
  EXPECT_EQ(server_->reply(requests_[2].first, std::vector<std::byte>(65'537), {}).error().code,
            ErrorCode::invalid_argument);
  ASSERT_TRUE(server_->reply(requests_[2].first, std::vector<std::byte>(65'536), {}));
  ASSERT_TRUE(until([&] { return largest.done.has_value(); }));
  EXPECT_EQ(largest.header.size(), 65'536u);
}

TEST_P(BulkFetches, ReopensClosedIdleConnection) {
  open_server();
  const auto client = make_client({.idle_timeout = 100ms});
  Fetched one;
  ASSERT_TRUE(client->fetch(one.fetch("10")));
  ASSERT_TRUE(until([&] { return one.done.has_value(); }));
  ASSERT_TRUE(until([&] { return server_->connections() == 0; }));
  Fetched two;
  ASSERT_TRUE(client->fetch(two.fetch("10")));
  ASSERT_TRUE(until([&] { return two.done.has_value(); }));
  EXPECT_TRUE(two.done->ok());
  EXPECT_EQ(server_->counters().accepted, 2u);
}

TEST_P(BulkFetches, Owners_MayBeDestroyedInCallbacks) {
  open_server();
  auto client = make_client();
  Fetched got;
  BulkFetch fetch = got.fetch("1000");
  bool done = false;
  fetch.on_done = [&](const Result<void>&) {
    client.reset();
    done = true;
  };
  ASSERT_TRUE(client->fetch(std::move(fetch)));
  ASSERT_TRUE(client->fetch(got.fetch("1000")));
  ASSERT_TRUE(until([&] { return done; }));
  EXPECT_FALSE(got.done.has_value());
  ASSERT_TRUE(until([&] { return server_->connections() == 0; }));
  EXPECT_EQ(held_, 0);
}

TEST_P(BulkFetches, WorksBetweenSeparateLoops) {
  const auto serving = LoopThread::start().value();
  std::unique_ptr<BulkServer> server;
  ASSERT_TRUE(serving->run([&] {
    server = std::make_unique<BulkServer>(
        serving->loop(),
        BulkServerCallbacks{
            .access =
                [&](const BulkToken&) {
                  return BulkAccess{sealed() ? std::optional(key_) : std::nullopt, ""};
                },
            .on_request =
                [&](BulkExchange exchange, const std::string&, std::span<const std::byte>) {
                  ASSERT_TRUE(server->reply(exchange, {}, {source_}));
                }});
    address_ = server->listen("127.0.0.1:0").value();
  }));
  const auto client = make_client();
  Fetched got;
  ASSERT_TRUE(client->fetch(got.fetch("all")));
  const Time began = monotonic_now();
  ASSERT_TRUE(until([&] { return got.done.has_value(); }));
  const double seconds = static_cast<double>((monotonic_now() - began).count()) / 1e9;
  RecordProperty("megabytes_per_second", static_cast<int>(40 / seconds));
  EXPECT_TRUE(got.space == source_);
  ASSERT_TRUE(serving->run([&] { server.reset(); }));
}

}  // namespace
}  // namespace mobula::internal
