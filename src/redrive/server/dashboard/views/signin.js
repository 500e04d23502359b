// Sign-in with an API key. The key goes into a cookie that scripts cannot read; the page forgets it.

import { html, useState } from "../html.js";
import { ErrorNotice } from "../components/notice.js";
import { navigate, path } from "../router.js";
import { signIn } from "../session.js";

function SignIn() {
  const [state, setState] = useState({ busy: false, error: null });
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await signIn(new FormData(event.target).get("key").trim());
      if (path.value === "/signin") navigate("/", { replace: true });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return html`<main class="sign-in">
    <form class="card" onSubmit=${submit}>
      <h1><img src="/assets/icon.svg" alt="" width="28" height="28" />Sign in to redrive</h1>
      <label class="field">
        <span>API key</span>
        <input name="key" type="password" required autocomplete="current-password" spellcheck="false" autofocus placeholder="rdk_…" />
      </label>
      <${ErrorNotice} error=${state.error} />
      <button class="button main" disabled=${state.busy}>${state.busy ? "Signing in …" : "Sign in"}</button>
      <p class="quiet">No key? Ask whoever runs this server, or make one there:</p>
      <pre class="command">redrive keys add --role operate --name me</pre>
    </form>
  </main>`;
}

export const route = { path: "/signin", title: "Sign in", View: SignIn };
