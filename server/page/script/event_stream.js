// Reads the server-sent events of a response. The browser's EventSource cannot be used, because it cannot
// send an API key.

/** Yields {type, data} for each event until the stream ends. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", type = "message", data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const whole of lines) {
        const line = whole.replace(/\r$/, "");
        if (line === "") {
          if (data.length > 0) yield {type, data: data.join("\n")};
          type = "message";
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line.startsWith("event:")) {
          type = line.slice(6).trim();
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
