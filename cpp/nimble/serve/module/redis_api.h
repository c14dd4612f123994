// The functions of the module interface of Redis and Valkey that this module
// uses. They are declared here and found by name when the server loads the
// module, so no header of a server is needed.
// The interface has version 1 in Redis 6.2 and later and in all of Valkey.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct RedisModuleBlockedClient;
struct RedisModuleCallReply;
struct RedisModuleCommand;
struct RedisModuleCommandFilter;
struct RedisModuleCommandFilterCtx;
struct RedisModuleCtx;
struct RedisModuleInfoCtx;
struct RedisModuleString;

struct RedisModuleEvent {
  uint64_t id;
  uint64_t version;
};

// How a command finds its keys, for SetCommandInfo().
struct RedisModuleCommandKeySpec {
  const char* notes;
  uint64_t flags;
  unsigned begin_search_type;
  union {
    struct {
      int pos;
    } index;
    struct {
      const char* keyword;
      int startfrom;
    } keyword;
  } bs;
  unsigned find_keys_type;
  union {
    struct {
      int lastkey;
      int keystep;
      int limit;
    } range;
    struct {
      int keynumidx;
      int firstkey;
      int keystep;
    } keynum;
  } fk;
};

struct RedisModuleCommandInfoVersion {
  int version;
  size_t sizeof_historyentry;
  size_t sizeof_keyspec;
  size_t sizeof_arg;
};

struct RedisModuleCommandInfo {
  const RedisModuleCommandInfoVersion* version;
  const char* summary;
  const char* complexity;
  const char* since;
  const void* history;
  const char* tips;
  int arity;
  const RedisModuleCommandKeySpec* key_specs;  // a zeroed one ends the array
  const void* args;
};

// Version 1.
struct RedisModuleClientInfo {
  uint64_t version;
  uint64_t flags;
  uint64_t id;
  char address[46];
  uint16_t port;
  uint16_t database;
};

using RedisCommandFunction = int (*)(RedisModuleCtx*, RedisModuleString**, int);
}

namespace nimble {

inline constexpr int kRedisOk = 0;
inline constexpr int kRedisError = 1;
inline constexpr int kRedisApiVersion = 1;
// Flags of GetContextFlags().
inline constexpr int kRedisInLua = 1 << 0;
inline constexpr int kRedisInMulti = 1 << 1;
inline constexpr int kRedisDenyBlocking = 1 << 21;
// Flag of RedisModuleClientInfo: the client is subscribed to a channel.
inline constexpr uint64_t kRedisClientPubSub = 1 << 1;
// Flag of RegisterCommandFilter(): not for calls of this module.
inline constexpr int kRedisFilterNotSelf = 1 << 0;
// Flags and types of key specifications.
inline constexpr uint64_t kRedisKeyReadOnly = 1 << 0;
inline constexpr uint64_t kRedisKeyAccess = 1 << 4;
inline constexpr unsigned kRedisBeginIndex = 2;
inline constexpr unsigned kRedisFindRange = 2;

inline constexpr RedisModuleEvent kRedisShutdown = {5, 1};

// The functions, by their names without "RedisModule_".
struct RedisApi {
  int (*SetModuleAttribs)(RedisModuleCtx*, const char* name, int version,
                          int api_version);
  int (*IsModuleNameBusy)(const char* name);
  int (*CreateCommand)(RedisModuleCtx*, const char* name, RedisCommandFunction,
                       const char* flags, int first_key, int last_key,
                       int key_step);
  void (*Log)(RedisModuleCtx*, const char* level, const char* format, ...);
  void (*Free)(void*);

  int (*ReplyWithArray)(RedisModuleCtx*, long size);
  int (*ReplyWithStringBuffer)(RedisModuleCtx*, const char*, size_t);
  int (*ReplyWithSimpleString)(RedisModuleCtx*, const char*);
  int (*ReplyWithNull)(RedisModuleCtx*);
  int (*ReplyWithError)(RedisModuleCtx*, const char*);
  int (*ReplyWithLongLong)(RedisModuleCtx*, long long);

  const char* (*StringPtrLen)(const RedisModuleString*, size_t* size);
  RedisModuleString* (*CreateString)(RedisModuleCtx*, const char*, size_t);
  void (*RetainString)(RedisModuleCtx*, RedisModuleString*);
  RedisModuleCallReply* (*Call)(RedisModuleCtx*, const char* command,
                                const char* format, ...);
  long long (*CallReplyInteger)(RedisModuleCallReply*);
  void (*FreeCallReply)(RedisModuleCallReply*);

  RedisModuleCommandFilter* (*RegisterCommandFilter)(
      RedisModuleCtx*, void (*)(RedisModuleCommandFilterCtx*), int flags);
  int (*CommandFilterArgsCount)(RedisModuleCommandFilterCtx*);
  RedisModuleString* (*CommandFilterArgGet)(RedisModuleCommandFilterCtx*,
                                            int position);
  int (*CommandFilterArgReplace)(RedisModuleCommandFilterCtx*, int position,
                                 RedisModuleString*);
  int* (*GetCommandKeys)(RedisModuleCtx*, RedisModuleString**, int count,
                         int* keys);

  int (*GetContextFlags)(RedisModuleCtx*);
  unsigned long long (*GetClientId)(RedisModuleCtx*);
  int (*GetClientInfoById)(RedisModuleClientInfo*, uint64_t id);
  RedisModuleBlockedClient* (*BlockClient)(
      RedisModuleCtx*, RedisCommandFunction reply, RedisCommandFunction timeout,
      void (*free_data)(RedisModuleCtx*, void*), long long timeout_ms);
  int (*UnblockClient)(RedisModuleBlockedClient*, void* data);
  void* (*GetBlockedClientPrivateData)(RedisModuleCtx*);
  RedisModuleCtx* (*GetThreadSafeContext)(RedisModuleBlockedClient*);
  void (*FreeThreadSafeContext)(RedisModuleCtx*);
  uint64_t (*CreateTimer)(RedisModuleCtx*, long long period_ms,
                          void (*)(RedisModuleCtx*, void*), void* data);
  int (*SubscribeToServerEvent)(RedisModuleCtx*, RedisModuleEvent,
                                void (*)(RedisModuleCtx*, RedisModuleEvent,
                                         uint64_t, void*));
  int (*RegisterInfoFunc)(RedisModuleCtx*,
                          void (*)(RedisModuleInfoCtx*, int is_for_crash));
  int (*InfoAddSection)(RedisModuleInfoCtx*, const char* name);
  int (*InfoAddFieldCString)(RedisModuleInfoCtx*, const char* name,
                             const char* value);
  int (*InfoAddFieldULongLong)(RedisModuleInfoCtx*, const char* name,
                               unsigned long long value);

  // Redis 7.0 and later, and Valkey. Null before.
  int (*ReplyWithMap)(RedisModuleCtx*, long size);
  RedisModuleCommand* (*GetCommand)(RedisModuleCtx*, const char* name);
  int (*SetCommandInfo)(RedisModuleCommand*, const RedisModuleCommandInfo*);
  // Redis 7.2 and later, and Valkey. Null before.
  int (*SetCommandACLCategories)(RedisModuleCommand*, const char* categories);
};

// The functions of the server that loaded the module.
extern RedisApi redis_api;

// Sets redis_api. Returns the name of a function that the server does not have
// but that is needed, or null.
const char* load_redis_api(RedisModuleCtx* context);

}  // namespace nimble
