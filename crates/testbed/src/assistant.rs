//! An assistant as users have one: the official SDK's client of the Model Context Protocol, with the program under test as
//! its server.

use std::process::{Child, Command, Stdio};

use lab::tie_to_parent;
use rmcp::model::{CallToolRequestParams, ServerPeerInfo, Tool};
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, ServiceExt};
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};

use crate::process::{CommandOutput, finish_child};

/// A session of an assistant with a server that it started.
#[derive(Debug)]
pub struct Assistant {
    session: RunningService<RoleClient, ()>,
    runtime: Runtime,
    server: Child,
}

/// The answer of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// Whether it is an error, which the assistant reads.
    pub is_error: bool,
    /// The answer.
    pub text: String,
    /// A remark of the tool after it: how to go on.
    pub remark: Option<String>,
}

impl Assistant {
    /// Starts a server and begins a session.
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut server = tie_to_parent(command).spawn().expect("the server starts");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (input, output) = (server.stdin.take(), server.stdout.take());
        let session = runtime.block_on(async {
            let input = pipe::Sender::from_owned_fd(input.expect("a pipe").into());
            let output = pipe::Receiver::from_owned_fd(output.expect("a pipe").into());
            let pipes = (output.expect("a pipe"), input.expect("a pipe"));
            ().serve(pipes).await.expect("a session")
        });
        Self {
            session,
            runtime,
            server,
        }
    }

    /// Returns what the server says of itself.
    pub fn server(&self) -> ServerPeerInfo {
        (*self.session.peer_info().expect("after the session began")).clone()
    }

    /// Returns the tools of the server.
    pub fn tools(&self) -> Vec<Tool> {
        let tools = self.runtime.block_on(self.session.list_all_tools());
        tools.expect("a list")
    }

    /// Calls a tool that exists.
    pub fn call(&self, tool: &str, arguments: Value) -> ToolReply {
        let reply = self.try_call(tool, arguments);
        reply.unwrap_or_else(|why| panic!("{tool}: {why}"))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When the server has no such tool.
    pub fn try_call(&self, tool: &str, arguments: Value) -> Result<ToolReply, ServiceError> {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object");
        };
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.runtime.block_on(self.session.call_tool(call))?;
        let texts = result
            .content
            .iter()
            .map(|it| it.as_text().expect("text").text.clone());
        let mut texts: Vec<_> = texts.collect();
        assert!(matches!(texts.len(), 1 | 2), "{texts:?}");
        let text = texts.remove(0);
        Ok(ToolReply {
            is_error: result.is_error == Some(true),
            text,
            remark: texts.pop(),
        })
    }

    /// Ends the session: closes the server's stdin, and returns how the server ended.
    pub fn end(self) -> CommandOutput {
        let ended = self.runtime.block_on(self.session.cancel());
        ended.expect("the session ends");
        drop(self.runtime);
        finish_child(self.server)
    }
}
