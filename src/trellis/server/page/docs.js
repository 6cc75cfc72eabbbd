// "Try it": sends a route's example, which can be edited, and shows the answer. The curl command follows the example.

const key = document.getElementById("key");
key.value = sessionStorage.getItem("key") ?? "";
key.addEventListener("input", () => sessionStorage.setItem("key", key.value));

for (const section of document.querySelectorAll("section[data-path]")) {
  const { path, method } = section.dataset;
  const [field, command, output] = ["textarea", ".curl", ".answer"].map((one) => section.querySelector(one));
  const show = () => {
    const quoted = field?.value.replaceAll("'", "'\\''");
    command.textContent = `curl ${location.origin}${path}${field ? ` -H 'Content-Type: application/json' -d '${quoted}'` : ""}`;
  };
  field?.addEventListener("input", show);
  show();
  section.querySelector("button").addEventListener("click", async () => {
    output.hidden = false;
    output.textContent = "…";
    try {
      const headers = { ...(field && { "content-type": "application/json" }), ...(key.value && { authorization: `Bearer ${key.value}` }) };
      const response = await fetch(path, { method, headers, body: field?.value });
      if (response.status === 401) key.parentElement.hidden = false;
      output.textContent = `${response.status} ${response.statusText}\n${readable(await response.text())}`;
    } catch {
      output.textContent = "The server does not answer.";
    }
  });
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return text;
  }
}
