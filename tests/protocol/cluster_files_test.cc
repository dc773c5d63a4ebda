#include "protocol/program/cluster_files.h"
#include "protocol/process_identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mobula::internal::test {
namespace {

namespace fs = std::filesystem;

class ClusterFiles : public ::testing::Test {
 protected:
  ClusterFiles() {
    std::string pattern = (fs::temp_directory_path() / "mobula-files-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ClusterFiles() override { fs::remove_all(directory_); }

  static KeyFile key_file() {
    return {.cluster = "blue",
            .role = "agent",
            .head_curve_key = std::string(40, 'h'),
            .head_signing_key = std::string(64, 'a'),
            .public_key = std::string(40, 'p'),
            .secret_key = std::string(40, 's')};
  }
  std::string at(const std::string& name) const { return directory_ + "/" + name; }
  static unsigned mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }

  std::string directory_;
};

TEST_F(ClusterFiles, RestoresKeyFileAndKeepsItPrivate) {
  ASSERT_TRUE(save(key_file(), at("blue.key")).ok());
  EXPECT_EQ(mode_of(at("blue.key")), 0600u);
  const auto back = load_key_file(at("blue.key"));
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->cluster, "blue");
  EXPECT_EQ(back->role, "agent");
  EXPECT_EQ(back->head_curve_key, key_file().head_curve_key);
  EXPECT_EQ(back->head_signing_key, key_file().head_signing_key);
  EXPECT_EQ(back->public_key, key_file().public_key);
  EXPECT_EQ(back->secret_key, key_file().secret_key);
}

TEST_F(ClusterFiles, RejectsReadableKeyFileWithRemedy) {
  ASSERT_TRUE(save(key_file(), at("blue.key")).ok());
  ASSERT_EQ(::chmod(at("blue.key").c_str(), 0640), 0);
  const auto back = load_key_file(at("blue.key"));
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().code, ErrorCode::permission_denied);
  EXPECT_NE(back.error().text.find("chmod 600 " + at("blue.key")), std::string::npos);
}

TEST_F(ClusterFiles, NamesCorruptKeyFile) {
  for (const std::string text : {"", "{", "[]", "{}", R"({"public_key": 7})"}) {
    ASSERT_TRUE(write_file(at("blue.key"), text, 0600).ok());
    const auto back = load_key_file(at("blue.key"));
    ASSERT_FALSE(back.ok()) << text;
    EXPECT_EQ(back.error().code, ErrorCode::corrupt) << text;
    EXPECT_NE(back.error().text.find(at("blue.key")), std::string::npos);
  }
}

TEST_F(ClusterFiles, NotAKeyFile_NoPermissionAdvice) {
  ASSERT_TRUE(write_file(at("passwd"), "root:x:0:0:root:/root:/bin/bash\n", 0644).ok());
  for (const std::string& path : {directory_, at("passwd"), std::string("/dev/null")}) {
    const auto back = load_key_file(path);
    ASSERT_FALSE(back.ok()) << path;
    EXPECT_EQ(back.error().code, ErrorCode::corrupt);
    EXPECT_EQ(back.error().text.find("chmod"), std::string::npos) << back.error().text;
    EXPECT_NE(back.error().text.find(path), std::string::npos);
  }
  EXPECT_NE(load_key_file(directory_).error().text.find("is a directory"), std::string::npos);
  EXPECT_NE(load_key_file(at("passwd")).error().text.find("is not a key file of Mobula"),
            std::string::npos);
}

TEST_F(ClusterFiles, MissingFile_IsNotFound) {
  EXPECT_EQ(load_key_file(at("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(load_head_file(at("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(load_agent_file(at("none")).error().code, ErrorCode::not_found);
}

TEST_F(ClusterFiles, RestoresHeadAndAgentFiles) {
  const HeadFile head{.cluster = "blue", .address = "host:1234", .pid = 77, .schema = 3};
  ASSERT_TRUE(save(head, at("head.json")).ok());
  const auto head_back = load_head_file(at("head.json"));
  ASSERT_TRUE(head_back.ok());
  EXPECT_EQ(head_back->address, "host:1234");
  EXPECT_EQ(head_back->pid, 77);
  EXPECT_EQ(head_back->schema, 3);

  const AgentFile agent{.cluster = "blue",
                        .head_address = "host:1234",
                        .head_curve_key = std::string(40, 'h'),
                        .node = NodeId::of(9),
                        .socket = "/run/x.sock",
                        .pid = 78,
                        .driver_agent = true};
  ASSERT_TRUE(save(agent, at("agent.json")).ok());
  const auto agent_back = load_agent_file(at("agent.json"));
  ASSERT_TRUE(agent_back.ok());
  EXPECT_EQ(agent_back->node, NodeId::of(9));
  EXPECT_EQ(agent_back->socket, "/run/x.sock");
  EXPECT_TRUE(agent_back->driver_agent);
}

TEST_F(ClusterFiles, IdentifiesProcessByMoreThanPid) {
  const auto self = ProcessIdentity::of_this_process();
  EXPECT_GT(self.start_time, 0u);
  EXPECT_TRUE(self.alive());
  HeadFile head{.cluster = "blue",
                .address = "host:1",
                .pid = self.pid,
                .schema = 1,
                .start_time = self.start_time,
                .boot_id = self.boot_id};
  ASSERT_TRUE(save(head, at("head.json")).ok());
  EXPECT_TRUE(runs(load_head_file(at("head.json")).value()));
  head.start_time += 1;
  EXPECT_FALSE(runs(head)) << "another process has its number";
  head.start_time = self.start_time;
  head.boot_id = "another boot";
  EXPECT_FALSE(runs(head));
  EXPECT_TRUE(runs(HeadFile{.cluster = "", .address = "", .pid = self.pid}))
      << "an earlier release recorded the pid alone";
  EXPECT_FALSE(runs(HeadFile{}));
}

TEST_F(ClusterFiles, FindsAgentsUnderStateDirectory) {
  for (const std::string cluster : {"blue", "green"}) {
    fs::create_directories(at(cluster + "/agent"));
    ASSERT_TRUE(save(AgentFile{.cluster = cluster,
                               .head_address = "h:1",
                               .head_curve_key = "",
                               .node = NodeId::of(1),
                               .socket = "s",
                               .pid = 1,
                               .driver_agent = false},
                     at(cluster + "/agent/agent.json"))
                    .ok());
  }
  fs::create_directories(at("broken/agent"));
  std::ofstream(at("broken/agent/agent.json")) << "{";
  fs::create_directories(at("empty"));
  EXPECT_EQ(agents_of_machine(directory_).size(), 2u);
  EXPECT_TRUE(agents_of_machine(at("nowhere")).empty());
}

TEST_F(ClusterFiles, CreatesPrivateDirectory) {
  ASSERT_TRUE(make_private_dir(at("a/b/c")).ok());
  EXPECT_EQ(mode_of(at("a/b/c")), 0700u);
  EXPECT_TRUE(make_private_dir(at("a/b/c")).ok());
}

TEST_F(ClusterFiles, NamesDirectoryThatCannotBeCreated) {
  std::ofstream(at("file")) << "x";
  const auto made = make_private_dir(at("file/folder"));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().text.find(at("file/folder")), std::string::npos);
}

TEST_F(ClusterFiles, WritesLeaveOnlyTheFile) {
  ASSERT_TRUE(write_file(at("x"), "first", 0644).ok());
  ASSERT_TRUE(write_file(at("x"), "second", 0644).ok());
  EXPECT_EQ(*read_file(at("x")), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(ClusterFiles, RejectsRuntimeDirectoryOfOthers) {
  const std::string own = at("own");
  ASSERT_TRUE(make_runtime_directory(own).ok());
  EXPECT_EQ(mode_of(own), 0700u);
  EXPECT_TRUE(make_runtime_directory(own).ok());

  ASSERT_EQ(::chmod(own.c_str(), 0755), 0);
  const auto open = make_runtime_directory(own);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code, ErrorCode::permission_denied);
  EXPECT_NE(open.error().text.find("chmod 700 " + own), std::string::npos) << open.error().text;

  ASSERT_EQ(::symlink("own", at("link").c_str()), 0);
  ASSERT_EQ(::chmod(own.c_str(), 0700), 0);
  EXPECT_EQ(make_runtime_directory(at("link")).error().code, ErrorCode::permission_denied);

  if (::geteuid() != 0) return;  // only root can change an owner
  ASSERT_EQ(::chown(own.c_str(), 12'345, 12'345), 0);
  const auto foreign = make_runtime_directory(own);
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().text.find("belongs to user 12345"), std::string::npos)
      << foreign.error().text;
  EXPECT_NE(foreign.error().text.find("XDG_RUNTIME_DIR"), std::string::npos)
      << foreign.error().text;
}

}  // namespace
}  // namespace mobula::internal::test
