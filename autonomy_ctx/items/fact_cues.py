"""Words that tell what a sentence is about, per language, as data.

Phrases are separated by ";" and compared word by word, without case and accents (`items/phrases.py`); the
longest phrase at a place counts. "^" means: only at the beginning of a clause. A text in another language
meets no cue, and nothing is found in it.
"""

from __future__ import annotations

# What `items/fact_rules.py` finds facts by. "none" holds phrases that begin like a cue and are none.
FACT_CUES: dict[str, str] = {
    "rule": """nobody may; no one may; only ever; strictly; is a must; are a must; is off; hard rule;
        non-negotiable; has to go through; have to go through; has to stay; have to stay; needs to be;
        need to be; must be; at the latest; auf gar keinen Fall; ausschließlich; Pflicht; grundsätzlich;
        zwingend; immer nur; nicht ohne; absolument; impérativement; strictement; obligatoire; surtout ne;
        rien avant; rien après; exclusivement; obligatorio; estrictamente; bajo ningún concepto;
        nada antes; exclusivamente; imprescindible; obrigatório; de jeito nenhum; de forma alguma;
        estritamente; 必ず; 決して; 以外; 厳守; 千万; 千万别; 绝对; 严禁; 必要; إطلاقا; بأي حال; حصرا;
        ضروري; ^rule for; rule:; ^ground rule; ^house rule; darf niemand; niemand außer; darf nur;
        dürfen nur; niemand darf; surtout pas; ^pas de; ^pas d'; personne sauf; regla de la casa;
        nadie excepto; nadie salvo; ^ningún; ^ninguna; ^nada de; ^nenhum; ^nenhuma; ninguém exceto;
        以外は; 除了; 规定; ルール:; 规则:; لا أحد; ممنوع أن; ^nothing over; ^nothing above;
        ^nothing under; ^nothing below; nobody but; no one but; nobody except; only with; use everywhere;
        never; always; must; must not; mustn't; must never; ^don't; ^do not; ^dont; ^please don't;
        you don't; you do not; from now on; going forward; ^only; use only; only use; make sure; ^ensure;
        ^no; ^avoid; not allowed; is forbidden; are forbidden; is prohibited; off limits;
        under no circumstances; at all times; without my approval; without asking; without my permission;
        ask me before; ask me first; check with me; ^stick to; ^keep; may not; is required; are required;
        is mandatory; ^at most; ^no more than; ^remember that; ^remember to; ^the rule is; ^no more;
        we don't; we never; we always; ^i never; i want you to always; i want you to never; has to be;
        ^whenever; ^treat; don't ever; hands off; ^leave; should never; should always; nie; niemals;
        immer; stets; ab jetzt; ab sofort; von nun an; künftig; in Zukunft; darf nicht; dürfen nicht;
        darfst nicht; auf keinen Fall; unter keinen Umständen; muss; müssen; nicht ohne meine;
        achte darauf; ^bitte nicht; ^bitte kein; ^bitte keine; ^keine; ^nur; nur noch; ^frag mich;
        frag mich vorher; ist verboten; ^vermeide; ohne meine Zustimmung; jamais; toujours; désormais;
        dorénavant; à partir de maintenant; il ne faut pas; ne doit pas; ne doivent pas; doit être;
        doivent être; doit; en aucun cas; interdit de; est interdit; assure-toi; assurez-vous;
        sans mon accord; demande-moi avant; uniquement; ^évite; ^évitez; ne touche pas; ne touchez pas;
        nunca; jamás; siempre; a partir de ahora; de ahora en adelante; en ningún caso; no debe; no deben;
        no se debe; debe ser; debe; deben; no uses; no toques; no envíes; no borres; no hagas; no cambies;
        no despliegues; no compartas; no reserves; asegúrate; sin mi aprobación; sin mi permiso;
        está prohibido; pregúntame antes; ^evita; ^solo; únicamente; sempre; a partir de agora;
        daqui em diante; de agora em diante; em hipótese alguma; não deve; não devem; deve; devem;
        não use; não toque; não envie; não apague; não altere; não faça; certifique-se;
        sem a minha aprovação; sem minha aprovação; é proibido; pergunte-me antes; ^evite; ^somente;
        ^apenas; 絶対に; 常に; いつも; 今後は; これからは; しないで; しないでください; ないでください;
        してはいけ; 禁止; なければならない; なければなりません; べからず; 厳禁; だけ使; のみ使;
        てはなりません; 必须; 必須; 永远不要; 永遠不要; 绝对不要; 絕對不要; 绝不; 絕不; 从不; 不要; 不得;
        不准; 不许; 从现在起; 从现在开始; 以后都; 以后必须; 今后; 一律; 务必; 始终; 总是; 切勿; 只能;
        未经我; أبدا; دائما; يجب; يجب أن; لا يجب; ممنوع; من الآن فصاعدا; لا ترسل; لا تستخدم; لا تحذف;
        لا تلمس; لا تنشر; لا تغير; تأكد من; فقط استخدم; لا يجوز; بدون موافقتي; دون موافقتي; يمنع""",
    "preference": """duzen; siezen; me tutoyer; on se tutoie; vouvoyer; tutéame; trátame de; végétariens;
        végétariennes; vegetarianos; vegetarianas; veganos; veganas; i'd like them; id like; i'd like the;
        keep it short; keep it simple; in plain words; in simple words; we love; we like; we hate;
        we enjoy; we don't like; not into; doesn't eat; doesn't like; doesn't drink; can't eat;
        can't drink; loves; hates; i prefer; i'd prefer; i would prefer; we prefer; we'd prefer; i like;
        i really like; i love; i hate; i dislike; i can't stand; i'd rather; i would rather; we'd rather;
        i don't like; i do not like; i don't eat; i don't drink; i do not eat; i do not drink;
        i don't fly; i can't eat; allergic; allergy; intolerant; vegetarian; vegan; pescatarian; kosher;
        halal; gluten-free; lactose; my favorite; my favourite; our preference; my preference;
        i'm a fan of; i enjoy; preferably; works best for me; i always; i usually; i'm more of a;
        i tend to; i'm not a fan; afraid of flying; i'd like my; i like my; prefers; she prefers;
        he prefers; they prefer; wheelchair; i'm diabetic; i'm scared of; ich bevorzuge; ich mag;
        ich mag keine; ich mag kein; am liebsten; lieber; ich esse kein; ich esse keine; ich trinke kein;
        allergisch; Allergie; Vegetarier; Vegetarierin; vegetarisch; Veganer; Veganerin; ich hasse;
        mir ist lieber; ich ziehe; ich liebe; Unverträglichkeit; je préfère; nous préférons; j'aime;
        je n'aime pas; j'adore; je déteste; allergique; végétarien; végétarienne; végétalien;
        je ne mange pas; je ne bois pas; plutôt que; mon préféré; ma préférée; j'aimerais mieux; prefiero;
        preferimos; me gusta; me gustan; no me gusta; no me gustan; me encanta; me encantan; odio;
        alérgico; alérgica; vegetariano; vegetariana; vegano; vegana; no como; no bebo; prefiro; eu gosto;
        gosto de; não gosto; adoro; detesto; odeio; não como; não bebo; prefería; preferiría; preferia;
        好きです; が好き; 好きではない; 嫌いです; が嫌い; 苦手; の方がいい; のほうがいい; 方が好き;
        アレルギー; ベジタリアン; 菜食; 好み; 我喜欢; 我更喜欢; 更喜欢; 我偏好; 偏好; 我不喜欢; 我讨厌;
        过敏; 素食; 我不吃; 我吃素; 宁愿; 我爱吃; 我喜歡; 我更喜歡; 過敏; أفضل أن; أنا أفضل; أفضّل; أحب;
        لا أحب; أكره; نباتي; نباتية; حساسية; لا آكل; لا أشرب""",
    "decision": """we'll have; we'll get; we're taking; we're doing; i'm taking; we are taking;
        we'll leave; the winner is; final answer; final choice; we're sticking; it'll be; we will keep;
        we will stay; we will take; i'll keep; i'll have; i want the; let it be; we picked; i picked;
        we've chosen; we've picked; we've agreed; ^keep the; we won't; we're not going; not going to;
        no longer going; ist entschieden; steht fest; wir haben gewählt; wir wählen; ich wähle;
        wir lassen; wird es; soll es sein; haben uns geeinigt; wir behalten; on choisit; on va faire;
        on fera; on va garder; on s'est mis d'accord; c'est tranché; ce sera; nous allons prendre;
        lo hemos decidido; está decidido; nos vamos con; vamos a hacer; vamos a dejar; será el; será la;
        me decido por; hemos elegido; hemos acordado; mantenemos; ficou combinado; vamos fazer; vai ser;
        decidimos por; mantemos; escolhi; に決定しました; を選びます; にしておきます; でお願いします;
        に絞り; 选定; 就定; 定为; 敲定; 选了; 最终选择; وقع الاختيار; اعتمدنا; قررت أن; سنكتفي; stays in;
        stays at; stays with; stays as; stay in; stay as; bleibt bei; bleibt in; bleibt drin; bleibt wie;
        reste en; reste à; reste comme; se queda en; se quedan en; fica em; ficam em; we go with;
        we go for; we take; we keep; we're keeping; we'll stay; we stay with; we stay in; we skip;
        we focus on; we drop; we leave out; then we use; so we use; is settled; it's settled; are settled;
        decided against; sticking with; we stick with; we stick to; wir machen das so; wir gehen mit;
        es bleibt bei; bleiben bei; wir verzichten auf; wir lassen das; on laisse tomber; on abandonne;
        on renonce à; on reste sur; va pour; nous gardons; nous prenons; lo dejamos en; descartamos;
        ^decidido; nos decidimos por; vamos manter; ficou decidido; deixamos de lado; で決まり;
        はやめます; はなしで; は無しで; 决定; 定下来; 还是用; 就去; 不用了; استقر الرأي; سنبقى; سنختار;
        لن نستخدم; let's not; ^use instead; we decided; i decided; i've decided; we've decided;
        we have decided; i have decided; it's decided; decided to; decided on; let's go with; let's use;
        let's take; let's go for; let's stick with; let's do; let's keep; let's pick; let's choose;
        let's switch to; we'll use; we will use; we'll go with; we will go with; i'll go with; i'll take;
        i'll use; i will take; we're going with; we are going with; i'm going with; ^go with; ^go for;
        ^take the; ^pick the; settled on; we settled; we agreed; agreed to; agreed on; as agreed; agreed:;
        the decision is; decision:; we chose; i chose; i choose; we choose; it is then; approved:;
        final decision; we're using; we are using; we'll keep; i pick; we opted; i opted; opted for;
        we'll do; we'll take; we'll drop; let's drop; let's skip; we'll skip; ^decided:; we'll move;
        we'll switch to; we're switching to; the plan is to; i accept; we'll stay with; let's stay with;
        wir haben entschieden; wir haben uns entschieden; ich habe mich entschieden; haben beschlossen;
        wir nehmen; ich nehme; wir verwenden; wir nutzen; lass uns; lasst uns; wir machen; nehmen wir;
        wir einigen uns; abgemacht:; Entscheidung:; wir bleiben bei; beschlossen; vereinbart; entschieden;
        wie vereinbart; nous avons décidé; on a décidé; j'ai décidé; on va prendre; on prend; je prends;
        nous allons utiliser; on va utiliser; on utilise; allons-y avec; on part sur; partons sur;
        c'est décidé; décision:; on garde; je choisis; nous choisissons; comme convenu; nous avons choisi;
        hemos decidido; decidimos; he decidido; decidí; vamos con; vamos a usar; usaremos; me quedo con;
        nos quedamos con; elegimos; elijo; acordamos; quedamos en; decisión:; como acordamos; decidi;
        vamos usar; vamos de; ficamos com; fico com; escolhemos; escolho; combinamos; decisão:;
        foi decidido; vamos ficar com; optamos por; に決めました; に決めた; ことにしました; ことにします;
        にします; にしましょう; で行きましょう; でいきましょう; を採用; 決定しました; に決定; で進め;
        を使うことに; 我们决定; 我决定; 决定用; 决定使用; 决定了; 决定采用; 我们用; 就用; 就选; 选择了;
        就这么定; 采用; 我们选; 那就; 定了; 我們決定; 決定用; قررنا; قررت; لقد قررنا; سنستخدم; سوف نستخدم;
        اخترنا; اخترت; اتفقنا; لنستخدم; لنعتمد; سنعتمد; تقرر""",
    "open": """i still need; we still need; still to do; still to be; to be done; to sort out;
        need to sort; has yet to; have yet to; not sorted; isn't clear; not clear yet; is unclear;
        unanswered; no word from; haven't got; hasn't sent; hasn't come; hasn't arrived; hasn't confirmed;
        haven't received; didn't get back; owes me; owe me; chase up; chasing; must not forget;
        mustn't forget; i'll have to; we'll have to; need to ask; have to ask; need to call; have to call;
        needs a; awaiting; on hold; left open; open point; ist noch offen; noch offen; offen; ungeklärt;
        klären wir noch; noch klären; noch fragen; noch buchen; noch bezahlen; hat noch nicht;
        haben noch nicht; wartet auf; darf ich nicht vergessen; sollte noch; sollten noch; müsste noch;
        en suspens; à régler; à voir; il faut; on doit; je dois; nous devons; n'a pas répondu;
        n'ont pas répondu; pas reçu; tengo que; tenemos que; me falta; nos falta; está por; sin resolver;
        sin confirmar; por confirmar; no he recibido; no hemos recibido; no ha llegado; tenho que;
        temos que; preciso de; está pendente; pendente; por resolver; não recebi; não chegou; まだ決ま;
        決まっていません; 確認中; 待ち; 忘れずに; 必要があります; 还得; 还差; 待处理; 没收到; 等着; 别忘;
        ما زال; لا يزال; لم يصل; لم نستلم; يجب ألا ننسى; تبقى; needs to happen; has to happen;
        no reply yet; no answer yet; no response yet; no news yet; isn't signed; isn't done; isn't fixed;
        isn't ready; isn't booked; isn't paid; is not signed; is not fixed; haven't found; havent found;
        haven't decided; havent decided; not decided; undecided; haven't heard; hasn't replied;
        hasn't answered; someone needs to; somebody needs to; someone should; somebody has to;
        someone must; don't let me forget; dont let me forget; make sure i don't forget; still don't know;
        couldn't find out; could not find out; come back to you; get back to you; not changed yet;
        still needs; still missing; muss ich noch; müssen wir noch; muss noch jemand; jemand muss;
        jemand müsste; steht aus; ausstehend; nicht gemeldet; keine Antwort; on attend; pas de réponse;
        penser à; pense à; il faut que je; il faudra; ^à faire; quelqu'un doit; toujours pas de; hay que;
        alguien tiene que; alguien debe; sin respuesta; no ha respondido; no han respondido;
        sigue pendiente; acuérdate de; há que; alguém tem que; alguém precisa; sem resposta;
        não respondeu; não responderam; falta fazer; しないと; ないといけない; がまだ; 返事を待って;
        回答待ち; 决不能忘; 还没有; 等回复; 没有回复; 得去; 有人得; لم يرد; لم يردوا; على أحد أن;
        لا بد أن; put that on the list; put it on the list; add that to the list; on the to-do list;
        on the todo list; remind me; todo; to do:; to-do; still need to; still needs to; still have to;
        still has to; still need; don't forget; do not forget; ^remember to call; waiting for; waiting on;
        open question; open item; open items; still open; pending; follow up; to be decided;
        to be confirmed; tbd; outstanding:; remains to be; get back to me; needs to be done; haven't yet;
        hasn't been; not yet; next step:; next steps:; need to before; we need to decide; on my list;
        remaining:; left to do; unresolved; still unresolved; unclear who; i still owe; still outstanding;
        i owe; action item; action items; needs an answer; let's come back to; come back to this;
        blocked on; blocked by; still waiting; yet to; someone has to; i have to remember; later today;
        i need you to later; erinnere mich; erinner mich; vergiss nicht; nicht vergessen; muss noch;
        müssen noch; fehlt noch; fehlen noch; offene Frage; offen ist; warte auf; warten auf;
        warten noch auf; noch nicht; noch zu erledigen; steht noch aus; stehen noch aus; wir müssen noch;
        ich muss noch; zu klären; rappelle-moi; rappelez-moi; n'oublie pas; n'oubliez pas; il faut encore;
        il reste à; reste à; on doit encore; nous devons encore; je dois encore; en attente de;
        en attente; j'attends; nous attendons; question ouverte; à faire:; pas encore; il manque encore;
        à confirmer; recuérdame; recuérdanos; no olvides; no te olvides; todavía hay que; aún hay que;
        todavía tenemos que; aún tenemos que; todavía falta; aún falta; falta por; queda pendiente;
        pendiente; pendientes; esperando; a la espera de; por hacer:; todavía no; aún no; me lembre;
        lembre-me; lembra-me; não esqueça; não se esqueça; ainda falta; ainda faltam; ainda precisamos;
        ainda preciso; ainda temos que; ainda tenho que; aguardando; à espera de; esperando por;
        ainda não; a fazer:; em aberto; tengo que antes; queda por; 思い出させて; リマインド; 忘れないで;
        まだ; 残って; 待っています; 返事待ち; 未解決; 未定; 要確認; やること; しなければ; 後で; 保留;
        提醒我; 别忘了; 別忘了; 记得; 記得; 待办; 待辦; 还需要; 還需要; 还要; 还没; 還沒; 尚未; 等待;
        在等; 未解决; 待定; 待确认; 回头; ذكرني; ذكريني; لا تنس; لا تنسى; ما زلنا بحاجة; ما زال علينا;
        لا يزال علينا; في انتظار; بانتظار; أنتظر; ننتظر; لم يتم بعد; معلق; قيد الانتظار; سؤال مفتوح""",
    "done": """went out; gone out; came through; came in; is through; crossed off; ticked off; all set;
        is sorted; got back; replied; settled; collected; eingegangen; abgegeben; eingereicht; beglichen;
        überwiesen; geklärt; abgehakt; réglé; réglée; déposé; répondu; rendu; c'est bon; resuelta;
        entregada; arreglado; arreglada; contestado; ya está; ya están; solucionado; resolveu; já está;
        já foi; entreguei; respondeu; 片付きました; 受け取りました; 返事が来ました; 办完; 处理好; 搞好;
        回复了; تسلمت; استلمت; رد; are out; imported; picked up; dropped off; renewed; angekommen;
        geliefert; vollständig; komplett; ist da; sind da; liegt vor; eingetroffen; abgeholt; beantragt;
        arrivé; arrivée; arrivés; livré; livrée; remplacé; remplacée; changé; changée; subido; subida;
        subidos; subidas; llegó; llegaron; entregado; recogido; chegou; chegaram; entregue; enviados;
        届きました; 済ませました; 到了; 收到了; 办好了; 买好了; 寄出; وصل; وصلت; done; it's done;
        that's done; is done; finished; completed; fixed; resolved; solved; sorted; paid; sent; booked;
        merged; closed; shipped; deployed; signed; cancelled; canceled; no longer needed; taken care of;
        handled; confirmed; received; arrived; called; invited; bought; ordered; written; wrote;
        submitted; updated; uploaded; rotated; published; delivered; got the; got it; passed; works now;
        is in place; checked off; scheduled; answered; reviewed; erledigt; fertig; gemacht; abgeschlossen;
        bezahlt; gebucht; gelöst; behoben; verschickt; gesendet; geschickt; geschrieben; bestellt;
        unterschrieben; reserviert; gekauft; repariert; eingeladen; verlängert; fait; c'est fait; terminé;
        terminée; payé; payée; réservé; réservée; envoyé; envoyée; résolu; résolue; corrigé; corrigée;
        signé; signée; reçu; reçue; acheté; commandé; renouvelé; fini; hecho; hecha; listo; lista;
        terminado; terminada; pagado; pagada; reservado; reservada; enviado; enviada; resuelto; corregido;
        corregida; firmado; comprado; ya pagué; ya reservé; ya envié; renovado; llamé; pagué; reservé;
        envié; feito; feita; pronto; pronta; concluído; concluída; pago; paga; resolvido; resolvida;
        corrigido; corrigida; assinado; reservei; paguei; enviei; liguei; comprei; 完了; 終わりました;
        終わった; 済み; 済んだ; 済みました; 直りました; 修正しました; 予約しました; 支払いました;
        送りました; 解決しました; できました; 完成; 完成了; 搞定; 做完; 做好了; 修好了; 已经; 已修复;
        已付; 已预订; 已发送; 解决了; 付了; 订好了; 交了; 寄了; تم; تمت; انتهى; انتهيت; انتهينا; دفعت;
        حجزت; أرسلت; أنجزت; اكتمل""",
    # Makes what is called done not done.
    "not done": """not; isn't; aren't; wasn't; hasn't; haven't; didn't; don't; won't; can't; will; would;
        should; once; when; if; until; unless; to be; must; needs; need; can; could; before; as soon as;
        let me know; still; almost; nearly; yet; after; might; may; never; nicht; kein; keine; wird;
        werden; sobald; wenn; bis; muss; müssen; soll; noch; fast; pas; jamais; quand; dès que; si; sera;
        doit; faut; encore; presque; cuando; será; debe; hay que; todavía; aún; casi; não; quando; se;
        deve; ainda; quase; まだ; ない; ません; たら; 予定; 没; 沒; 不; 尚未; 如果; 等; 要; 未; لم; لن;
        لا; عندما; إذا; سوف; بعد أن; no está; no he; no se ha; no ha; no hemos""",
    "change": """now it's; it's now; has been raised; has been lowered; has gone up; went up; went down;
        goes up; goes down; up to now; down to; not any more; make that; slipped to; slipped;
        brought forward; pushed back; shifted to; cut to; grew to; shrank to; ist gestiegen; ist gesunken;
        vorverlegt; verlegt; gekürzt; angehoben; gesenkt; avancé; repoussé; augmenté; réduit; baissé;
        décalé; finalement; se retrasa; se adelanta; ha subido; ha bajado; sube a; baja a; se cambia;
        aumentou; diminuiu; subiu; baixou; passou; 増え; 減り; 早まり; 遅れ; 上げ; 下げ; 提前; 增加到;
        减少到; 涨到; 降到; 延后; ارتفع; انخفض; تقدم; تأخر; actually; instead; instead of; ^no ,; ^nope;
        ^correction; ^sorry ,; ^wait ,; i meant; scratch that; changed my mind; change; ^make it;
        ^make that; let's make it; let's make that; let's change; let's move; let's switch; update;
        ^rather; no longer; not anymore; any more; after all; has changed; is now; are now; has moved;
        was moved; moved to; change of plan; change of plans; ^new; switch to; switched to; rather than;
        not but; ^better; on second thought; i was wrong; ^revised; has been moved; has been changed;
        postponed; postponed to; rescheduled; raised to; lowered to; increased to; reduced to;
        extended to; pushed to; bumped to; renamed to; replaced by; replace; ^oops; i misspoke;
        strike that; it turns out; in fact; doch; stattdessen; statt; anstatt; ^nein ,; ^korrektur;
        ändere; ändern; geändert; jetzt doch; nicht mehr; sondern; ist jetzt; beträgt jetzt; ist nun;
        verschoben; ich meinte; Planänderung; eigentlich; erhöht; wechseln zu; jetzt; en fait; plutôt;
        au lieu de; à la place; ^non ,; change le; changez; modifie; ne plus; n'est plus; mais;
        est maintenant; reporté; je voulais dire; désolé; remplace; passe à; maintenant; en realidad;
        mejor; en lugar de; en vez de; cambia; cambiar; cambié de opinión; ya no; sino; ahora es;
        ahora son; aplazado; quise decir; corrección; perdón; mejor dicho; ahora; na verdade; aliás;
        em vez de; ao invés de; mudar; mude; altere; mudei de ideia; não mais; mas sim; agora é; adiado;
        correção; quis dizer; agora; desculpe; trocar; やっぱり; やはり; 代わりに; ではなく; じゃなくて;
        変更; 訂正; 間違え; 今は; 変わりました; 延期; いや; 改成; 改为; 改為; 而不是; 不是; 其实; 其實;
        更正; 换成; 換成; 变成; 现在是; 不再; 推迟; 改到; 错了; 应该是; 算了; في الواقع; بدلا من; بدلا;
        غير; تغيير; تصحيح; لم يعد; أصبح; أصبحت; بل; الآن; قصدت; تأجل""",
    # Takes a rule back.
    "withdraw": """forget the rule; forget about; forget what i said; forget the; ignore the rule;
        drop the rule; lift the; the rule no longer; doesn't apply anymore; does not apply anymore;
        no longer applies; you can again; you may again; it's fine to; it's ok to; it's okay to;
        you can now; you may now; is allowed again; is allowed now; is fine now; is ok now; is okay now;
        you're allowed to; you are allowed to; cancel the rule; remove the rule;
        you don't need to anymore; no need to; again now; vergiss die Regel; vergiss das mit;
        die Regel gilt nicht mehr; gilt nicht mehr; du darfst wieder; ihr dürft wieder;
        ist wieder erlaubt; ist jetzt erlaubt; du kannst wieder; oublie la règle; oubliez la règle;
        la règle ne s'applique plus; tu peux de nouveau; tu peux à nouveau; vous pouvez de nouveau;
        olvida la regla; olvídate de; la regla ya no; ya puedes; ya se puede; esqueça a regra;
        a regra não vale mais; já pode; pode voltar a; ルールは忘れて; ルールは無し; してもいいです;
        しても構いません; 忘记规则; 忘了; 不用再; 可以再; 规则取消; 取消规则; انس القاعدة; القاعدة لم تعد;
        يمكنك الآن""",
    "goal": """the goal is; our goal is; my goal is; the aim is; our aim is; the objective is;
        our objective; my objective; new goal; the goal now; ^goal:; das Ziel ist; unser Ziel ist;
        mein Ziel ist; le but est; l'objectif est; notre objectif; mon objectif; el objetivo es;
        nuestro objetivo; mi objetivo; o objetivo é; nosso objetivo; meu objetivo; 目標は; 目的は; 目标是;
        الهدف هو; هدفنا; هدفي""",
    # A goal only at the beginning of a conversation.
    "wish": """^i'm doing; ^i am doing; ^i'm writing; ^i am writing; ^we're writing; ^i'm preparing;
        ^i'm organizing; ^i'm organising; are planning a; are planning to; am planning to;
        and i are planning; ^i want to; ^we want to; ^i need to; ^we need to; ^i'd like to;
        ^i would like to; ^we'd like to; ^we would like to; ^help me; ^please help me; ^i'm building;
        ^i am building; ^we're building; ^we are building; ^i'm planning; ^we're planning;
        ^we are planning; ^i am planning; ^i'm trying to; ^we're trying to; ^i'm working on;
        ^we're working on; ^we are migrating; ^we're migrating; ^i want you to; ^i need you to;
        ^can you help me; ^could you help me; ^i plan to; ^ich möchte; ^ich will; ^wir wollen;
        ^wir möchten; ^hilf mir; ^wir planen; ^ich plane; ^ich brauche hilfe; ^wir bauen; ^je veux;
        ^je voudrais; ^j'aimerais; ^nous voulons; ^aide-moi; ^aidez-moi; ^on veut; ^nous aimerions;
        ^quiero; ^queremos; ^necesito; ^necesitamos; ^ayúdame; ^me gustaría; ^quero; ^preciso;
        ^precisamos; ^me ajude; ^gostaria de; したいです; たいです; 作りたい; したい; 我想; 我要; 我们想;
        我们要; 帮我; 我需要; أريد أن; نريد أن; أريد; ساعدني""",
    # What an assistant calls decided.
    "agreement": """as agreed; we agreed; we decided; we've decided; we have decided; decision:;
        the decision is; agreed:; agreed to; agreed on; it's decided; wie vereinbart;
        wir haben entschieden; Entscheidung:; comme convenu; décision:; nous avons décidé; como acordamos;
        decisión:; conforme combinado; decisão:; hemos decidido; に決定; 決定しました; 我们决定; اتفقنا;
        قررنا""",
    # Says a value without naming an attribute.
    "value": """we fly; we land; we now land; i land; we arrive; i arrive; landing at; we depart; i fly;
        call me; my name's; i live in; i work at; i work for; i'm based in; we're based in;
        we are based in; of us; i was born; i'm from; i weigh; i'm turning; set to; is called; are called;
        we use; we run; runs on port; listens on; i go by; we fly to; we fly from; we leave on;
        we arrive on; i leave on; we're flying; you can reach me; my kids are; is due; are due; nenn mich;
        ich heiße; ich wohne in; ich arbeite bei; wir sind zu; wir fliegen nach; wir benutzen;
        je m'appelle; appelle-moi; appelez-moi; j'habite; je travaille chez; nous sommes; me llamo;
        llámame; vivo en; trabajo en; somos; me chamo; me chame de; moro em; trabalho na; trabalho no;
        と呼んで; に住んで; といいます; と申します; 叫我; 我叫; 我住在; 我在; اسمي; نادني; أسكن في;
        أعمل في""",
    # How many there are.
    "amount": """we have; we've got; we are at; we're at; we expect; there will be; there are now;
        final count; wir haben; wir sind; es sind; sind es; on a; nous avons; nous serons; on sera;
        tenemos; seremos; somos; hay ahora; temos; teremos; 我们有; 一共; لدينا; سنكون""",
    # A decision only where something is corrected or assigned.
    "choice": "^let's; ^use; lass uns; ^utilise; ^usa; ^usar",
    # Choosing one thing over another.
    "contrast": """instead of; rather than; statt; anstatt; anstelle von; au lieu de; plutôt que;
        à la place de; en vez de; en lugar de; em vez de; ao invés de; no lugar de; ではなく; の代わりに;
        而不是; 代替; بدلا من""",
    # Something that is said lest it be forgotten.
    "memory": """before i forget; bevor ich es vergesse; avant que j'oublie; antes de que se me olvide""",
    # A question, also without its mark.
    "question": """^what; ^what's; ^whats; ^why; ^how; ^who; ^whose; ^where; ^which; ^is there;
        ^are there; ^is it; ^is that; ^is the; ^does; ^do they; ^do you; ^do we; ^did; ^was the;
        ^any news; ^any idea; ^has anyone; ^have you; ^was; ^wie; ^warum; ^wieso; ^wer; ^wo; ^welche;
        ^welcher; ^welches; ^gibt es; ^passt das; ^ist das; ^hast du; ^pourquoi; ^combien; ^comment; ^qui;
        ^quel; ^quelle; ^quels; ^est-ce que; ^qu'est-ce; ^où; ^c'est quoi; ^y a-t-il; ^qué; ^por qué;
        ^cómo; ^cuánto; ^cuánta; ^cuántos; ^cuántas; ^quién; ^dónde; ^cuál; ^por que; ^quanto; ^quantos;
        ^quem; ^onde; ^qual; ^será que; ^なぜ; ^どうして; ^どう; ^何; ^いつ; ですか; ますか; でしょうか;
        ^为什么; ^怎么; ^什么; ^谁; ^哪; ^多少; 吗; ^هل; ^لماذا; ^كم; ^ما هو; ^ما هي; ^من هو; ^أين; ^متى;
        ^كيف""",
    # What follows from what was said before: "then keep it at 26".
    "conclusion": """^then; then; dann; alors; du coup; entonces; então; では; じゃあ; 那; 那么; إذن""",
    # A choice between things, in a question.
    "alternative": """or; which; which one; who should; what do we do; what should we; oder; welche;
        welcher; welches; was machen wir; ou; lequel; laquelle; que fait-on; qu'est-ce qu'on fait; o; u;
        cuál; qué hacemos; qual; o que fazemos; それとも; または; どちら; どっち; 还是; 或者; 哪个; أم;
        أو; أي""",
    # Puts off what the other one said.
    "defer": """get back to this; get back to that; get back to it; come back to it; come back to this;
        come back to that; back to this; leave that for; leave it for; leave this for; leave that;
        park that; park it; another time; do it later; look at it later; look at that later; fix it later;
        fix that later; let me know; keep me posted; darauf zurück; das machen wir später;
        lassen wir erstmal; lassen wir erst mal; sag Bescheid; gib Bescheid; on verra plus tard;
        on y reviendra; laisse ça pour; tiens-moi au courant; lo dejamos para; lo vemos luego;
        deja eso para; ya me dices; avísame; volvemos a esto; voltamos a isso; deixa isso para;
        deixe isso para; me avise; 後で考え; また今度; 連絡ください; 以后再说; 回头再说; 之后再看;
        告诉我一声; لنعد إليه; نؤجله; أخبرني""",
    # An assistant takes something on its list.
    "ack open": """put it on the list; put that on the list; add that to the list; on the to-do list;
        on the todo list; on the list; to the list; on my list; my list; remind you; i'll remind;
        as a to-do; as a todo; keep it open; stays open; leave it open; leave it for later;
        keep it in mind; keep that in mind; keep looking; i'd do it this month; auf die Liste;
        auf der Liste; erinnere dich; erinnere sie; schreibe es auf; ist vorgemerkt; bleibt offen;
        lasse ich offen; à la liste; sur la liste; rappellerai; le rappelle; en suspens; je le note;
        lo apunto; la dejo apuntada; lo dejo apuntado; me lo apunto; a la lista; en la lista;
        te lo recuerdo; te recordaré; na lista; à lista; vou lembrar; eu lembro; fica em aberto;
        覚えておきます; リマインドします; リストに; 思い出させ; 记下了; 会提醒; 列入; 加到清单; سأذكرك;
        أضفتها إلى القائمة; في القائمة; إلى القائمة""",
    # An assistant has taken note of what it is told.
    "ack note": """^understood; ^got it; ^noted; ^makes sense; ^clear; ^will do; ^of course; ^fair;
        ^agreed; ^good to know; ^thanks for telling; ^saved; ^right; ^you're right; ^clearly;
        ^that's clear; ^good choice; ^great choice; ^lovely choice; ^nice choice; ^wise choice;
        ^good call; ^verstanden; ^notiert; ist notiert; ist vermerkt; ^alles klar; ^gern; ^gerne;
        ^selbstverständlich; ^gute Wahl; ^gute Entscheidung; ^gemerkt; ^d'accord; ^c'est noté; ^noté;
        ^bien noté; ^compris; ^entendu; ^bon choix; ^c'est clair; ^entendido; ^de acuerdo; ^claro;
        ^anotado; ^buena elección; ^tomo nota; ^entendi; ^certo; ^combinado; ^boa escolha; ^承知;
        ^かしこまり; ^了解; ^分かりました; ^わかりました; ^登録しました; ^良い案; ^明白; ^收到; ^知道了;
        ^记住了; ^好选择; ^مفهوم; ^فهمت; ^سجلت; ^اختيار جيد""",
    # The same of a figure: such words say little else.
    "ack figure": """^ok; ^okay; ^sure; ^done; ^updated; ^updating; ^changed; ^applied; ^set; ^adjusted;
        ^great; ^nice; ^perfect; ^good; ^thanks; ^thank you; ^fine; ^well done; ^locked in; ^moved;
        ^saved; ^no problem; ^switched; ^i'll shift; ^i'll adjust; ^plenty of time; ^gut; ^geändert;
        ^angepasst; ^ist angepasst; ^passt; ^super; ^danke; ^umso besser; ^prima; ^parfait; ^très bien;
        ^merci; ^je décale; ^modifié; ^pas de souci; ^bien; ^vale; ^perfecto; ^gracias; ^cambiado;
        ^actualizado; ^lo cambio; ^hecho; ^feito; ^ótimo; ^obrigado; ^alterado; ^atualizado; ^はい;
        ^変更しました; ^更新しました; ^好的; ^好; ^已更改; ^已更新; ^改好了; ^حسنا; ^تمام; ^تم; ^شكرا""",
    # A question that is a request.
    "request": """^can you; ^could you; ^would you; ^will you; ^can we; ^could we; ^please; ^kannst du;
        ^könntest du; ^können sie; ^können wir; ^könnten sie; ^peux-tu; ^pouvez-vous; ^pourrais-tu;
        ^pourriez-vous; ^puedes; ^podrías; ^puede; ^podría; ^pode; ^poderia; ^você pode; ください;
        もらえますか; くれますか; 能不能; 可以; 请; 能否; هل يمكنك; من فضلك""",
    "later": """sometime; some day; at some stage; irgendwann; bei Gelegenheit; un jour; à l'occasion;
        algún día; en algún momento; em algum momento; um dia; いつか; そのうち; 改天; 有空; يوما ما;
        later; afterwards; at some point; später; nachher; plus tard; luego; más tarde; depois;
        mais tarde; 后で; 後で; 稍后; 回头; لاحقا""",
    "duty": """i need to; we need to; i have to; we have to; we'll need to; we'll have to; i'll need to;
        i'll have to; have to; has to; need to; needs to; müssen; muss; devons; dois; doit; il faut;
        tenemos que; tengo que; hay que; temos que; tenho que; precisamos; preciso; 必须; 需要; يجب أن;
        علينا أن""",
    "before": """after; once; as soon as; nach; sobald; après; dès que; después de; en cuanto; depois de;
        assim que; の後; 之后; بعد; before; by; until; till; vor; bis; avant; d'ici; antes de; antes del;
        para el; até; 之前; 以前; までに; قبل; حتى""",
    "condition": """^if; if; ^when; unless; in case; provided that; wenn; falls; sofern; si; au cas où;
        en caso de; se; caso; もし; 場合; 如果; 要是; إذا; لو""",
    "hypothetical": """i read somewhere; i heard; no idea if; , whatever; hab gelesen; irgendwo gelesen;
        j'ai lu; he leído; li que; 読んだ; 听说; قرأت; thinking out loud; just thinking; just asking;
        just wondering; just curious; just a thought; just an idea; idk; we'll see; haha;
        nur so als Frage; nur eine Frage; nur so ein Gedanke; mal sehen; juste une idée;
        juste une question; on verra; solo una idea; solo una pregunta; ya veremos; só uma ideia;
        só uma pergunta; vamos ver; 聞いてみただけ; 随便问问; 只是问问; مجرد سؤال; سنرى; what if; suppose;
        supposing; imagine; hypothetically; would have; let's say; for example; for instance; e.g; maybe;
        perhaps; i think we could; not sure; should we; should i; i wonder; might; could be; i guess;
        thinking about; thinking of; considering; if i decided; if we decided; had we; was wäre wenn;
        angenommen; zum Beispiel; vielleicht; eventuell; könnte; ich überlege; peut-être; par exemple;
        supposons; imaginons; je me demande; quizás; tal vez; por ejemplo; supongamos; a lo mejor; talvez;
        por exemplo; suponha; 例えば; たとえば; もしかして; かもしれない; 也许; 可能; 比如; 例如; 假如;
        假设; 或许; ربما; مثلا; لنفترض""",
    "report": """says never; says always; says don't; says not to; says you should; tells me never;
        tells me always; sagt immer; sagt man soll; dit toujours; dit jamais; dice siempre; dice que;
        diz sempre; diz que; he said; she said; they said; the docs say; docs say; the article says;
        according to; it says; he told; she told; they told; said that; they claim; the error says;
        the message says; the log says; the manual says; er sagte; sie sagte; laut; sie sagten; il a dit;
        elle a dit; selon; dijo que; según; disse que; segundo o; と言っていました; によると; 他说; 她说;
        根据; قال; وفقا""",
    "proposal": """i suggest; i recommend; i propose; i'd suggest; i'd recommend; i would suggest;
        i would recommend; i'd go with; my proposal; my recommendation; my suggestion; i'd propose;
        how about; proposal:; recommendation:; we could; shall we; suggested plan:; ich schlage vor;
        ich empfehle; mein Vorschlag; ich würde vorschlagen; wie wäre es; Vorschlag:; je propose;
        je suggère; je recommande; je vous propose; je te propose; ma recommandation; proposition:;
        sugiero; propongo; recomiendo; te propongo; mi propuesta; propuesta:; sugiro; proponho; recomendo;
        minha proposta; proposta:; を提案; をお勧め; おすすめ; はいかがでしょう; 我建议; 建议; 我推荐;
        推荐; أقترح; أنصح; اقتراحي""",
    "accept": """^yes; ^yep; ^yeah; ^sure; ^ok; ^okay; ^sounds good; ^sounds great; ^perfect; ^go ahead;
        ^do that; ^do it; ^let's do that; ^let's do it; ^agreed; ^deal; ^fine; ^good idea; ^great idea;
        ^works for me; ^i agree; ^accepted; ^approved; ^that works; ^great , do; ^great , let's;
        ^go for it; ^make it so; ^alright; ^ja; ^einverstanden; ^klingt gut; ^mach das; ^machen wir; ^gut;
        ^passt; ^genau; ^oui; ^d'accord; ^parfait; ^très bien; ^vas-y; ^allez-y; ^ça marche; ^bonne idée;
        ^sí; ^vale; ^de acuerdo; ^perfecto; ^adelante; ^hazlo; ^me parece bien; ^sim; ^combinado;
        ^perfeito; ^pode ser; ^de acordo; ^faça isso; ^ótimo; ^はい; ^それで; ^お願いします; ^いいですね;
        ^了解; ^そうしましょう; ^好; ^好的; ^可以; ^同意; ^行; ^没问题; ^就这样; ^نعم; ^موافق; ^حسنا;
        ^تمام""",
    "refuse": """but; however; no; not; don't; wait; nicht; aber; nein; non; mais; pas; pero; mas; não;
        でも; 但; 不; لكن; لا""",
    "artifact": """i've booked; i booked; booked; i've created; i created; created; i've committed;
        committed; i've opened; i opened; opened; i've ordered; ordered; i've reserved; reserved;
        i've deployed; deployed; i've published; published; i've merged; merged; i've sent; i've filed;
        filed; i've scheduled; scheduled; i've pushed; pushed; i've submitted; submitted; i've saved;
        saved; wrote; written; confirmation number; booking reference; booking code; reservation number;
        order number; ticket number; tracking number; invoice number; reference number; case number;
        uploaded; registered; released; confirmed; placed; gebucht; erstellt; angelegt; reserviert;
        bestellt; Buchungsnummer; Bestellnummer; Auftragsnummer; Buchungscode; committet; réservé;
        réservée; créé; créée; commandé; numéro de commande; numéro de réservation;
        numéro de confirmation; reservado; reservada; creado; creada; número de pedido; número de reserva;
        código de reserva; he reservado; he creado; criado; criada; reservei; criei; número do pedido;
        予約番号; 注文番号; 予約しました; 作成しました; 预订号; 订单号; 已预订; 已创建; 预订成功;
        رقم الحجز; رقم الطلب; تم الحجز; تم إنشاء""",
    "lead": """before i forget; before i forget that; bevor ich es vergesse; avant que j'oublie;
        antes de que se me olvide; sorry , one more; one more; one more thing; quick question;
        quick thing; while you're at it; while you're in there; while you are at it; hey; hm; hmm; ugh;
        ok; okay; ok so; kurze Frage; sag mal; ach ja; petite question; dis; bon; oye; una cosa;
        una pregunta; uma coisa; good news; bad news; great news; gute Nachricht; schlechte Nachricht;
        bonne nouvelle; mauvaise nouvelle; ちなみに; 对了; 顺便; so; please; also; and; oh; btw;
        by the way; bitte; auch; und; übrigens; s'il te plaît; aussi; et; au fait; por favor; también; y;
        além disso; também; e; por cierto; あと; それと; 请; 另外; 还有; من فضلك; أيضا""",
    "none": """before i forget; bevor ich es vergesse; avant que j'oublie; antes de que se me olvide;
        sorry , one more; if possible; wenn möglich; falls möglich; si possible; si es posible;
        se possível; must be somewhere; must be something; must be someone; must be because; must be the;
        must be a; must be in; must come from; must be from; ich vergesse immer; ich verwechsle immer;
        ich verliere immer; j'oublie toujours; je confonds toujours; je perds toujours; siempre se me;
        siempre me olvido; siempre confundo; sempre me esqueço; sempre esqueço; sempre confundo;
        いつも忘れ; 忘れてしまい; 我总是忘; 总是忘记; 老是忘; أنسى دائما; أخلط دائما; leave that;
        leave this; forget it; forget that; todo comments; todo comment; todo list; todo app;
        weiß ich noch nicht; weiß noch nicht; i don't know yet; not sure yet; whenever you can;
        whenever you want; whenever you like; whenever you have; it never; never worked; never got;
        never understood; never really; never mind; nevermind; as always; has never; have never;
        had never; i've never; never been; never heard; never seen; never had; is always; are always;
        was always; i'm always; it always; must have been; must have had; must have gone; must be kidding;
        don't worry; don't know; don't think; don't bother; don't mind; don't you; don't see;
        don't understand; don't get it; don't have; i don't know; i don't think; i don't see;
        i don't understand; i don't get; i don't have; i don't want; i don't need; i don't remember;
        you don't have to; you don't need to; you don't say; do not know; do not think; no problem;
        no thanks; no worries; no idea; no way; no need; no one; no doubt; no wonder; no rush; no matter;
        no luck; no clue; no momento; ich muss; only if; only one; if only; not only; we don't know;
        we don't have; we don't need; keep going; keep in mind; keep it up; keep me posted; keep up;
        leave it; every time; i like it; i like that; i like this; i like the; i like how; i like your;
        i like these; i like those; i like them; i like where; i love it; i love that; i love this;
        i love the; i love how; i love your; i really like it; i really like that; i really like this;
        i really like the; i would like to know; i'd like to know; i'd like to see; i would like to see;
        i want to see; i want to know; i need to know; i need to see; i need to check; i need to think;
        i need to go; i want to understand; i'd like to understand; i would like to understand;
        i want to ask; i'd like to ask; i would like to ask; i want to thank; let's see; let's try;
        let's look; let's continue; let's start; let's go; let's do this; let's move on; must say;
        at least; may not be; always fails; always crashes; always returns; always has; always works;
        as soon as; whatever; no longer sure; the only; an only; not yet sure; at most times;
        i always wondered; i always forget; always good; always nice; always a; always happy; for ever;
        pending review of; ich weiß nicht; immer noch; schon immer; nie mehr gesehen; wie immer;
        noch nicht sicher; nicht immer; immer wieder; ich möchte wissen; toujours pas; comme toujours;
        jamais vu; je veux savoir; je voudrais savoir; como siempre; siempre falla; nunca he;
        quiero saber; me gusta esto; me gusta la idea; como sempre; sempre falha; nunca vi; quero saber;
        prefiro saber; いつもありがとう; いつもお世話; まだです; また後で; 好きにして; 不要紧; 不要緊;
        不要担心; 我喜欢这个; 我想知道; 我要看; 我想问; 我想看; أحب هذا; لا أعرف""",
}
# Words that name an attribute: what is said of them is a value.
ATTRIBUTES = """
db; instance; appointment; delivery; length; width; height; line length; build; image; tag; job; task;
total; balance; budget; deadline; due date; address; version; name; port; email; e-mail; mail; phone;
phone number; number; host; hostname; server; url; domain; branch; repo; repository; region; zone;
timezone; time zone; currency; language; price; cost; limit; rate; size; quota; timeout; threshold; date;
time; start; departure; arrival; return; destination; airport; hotel; room; seat; code; pin; password;
username; user; account; id; key; token; birthday; age; weight; company; team; manager; boss; contact;
client; customer; supplier; vendor; project; database; table; schema; bucket; cluster; queue; topic;
endpoint; path; folder; directory; file; model; framework; license; target; goal; headcount; guests;
people; participants; attendees; venue; location; city; country; postcode; zip; iban; order; invoice;
contract; ticket; flight; train; gate; reference; confirmation; locker; plan; tier; discount; rent;
salary; capacity; retention; interval; ttl; ip; meeting; launch; release; event; wedding; party; demo;
review; dose; blood type; wife; husband; son; daughter; dog; cat; partner; replicas; workers; Budget;
Frist; Termin; Adresse; Version; Nummer; Telefonnummer; Preis; Limit; Datum; Abflug; Ankunft; Ziel;
Kennwort; Passwort; Konto; Geburtstag; Firma; Projekt; Datenbank; Stichtag; Rechnung; Kundennummer;
Obergrenze; Zeitzone; Sitzung; Treffen; Abgabe; Besprechung; Ort; délai; adresse; numéro; prix; limite;
échéance; nom; mot de passe; compte; anniversaire; ville; vol; rendez-vous; réunion; entreprise;
presupuesto; plazo; dirección; número; precio; límite; fecha; nombre; contraseña; cuenta; cumpleaños;
puerto; ciudad; vuelo; reunión; correo; orçamento; prazo; endereço; preço; data; nome; senha; conta;
aniversário; porta; cidade; voo; reunião; fecha límite; empresa; versión; versão; 予算; 締め切り; 締切;
住所; 名前; 電話番号; 価格; 上限; 期限; 日付; ポート; バージョン; 誕生日; 目的地; 出発; 会議; 人数;
パスワード; メール; 会社; 预算; 預算; 截止日期; 地址; 名字; 姓名; 电话; 价格; 日期; 端口; 版本; 生日;
会议; 密码; 邮箱; 公司; 账号; 出发; ميزانية; ميزانيتي; ميزانيتنا; الميزانية; الموعد; موعد; العنوان;
عنواني; الاسم; اسمي; رقم; رقمي; السعر; التاريخ; المنفذ; الإصدار; كلمة المرور; بريدي; البريد;
الموعد النهائي; الرحلة; الفندق; المدينة; الاجتماع
"""
# Between an attribute and its value.
COPULAS = """
is now; are now; is; are; was; were; will be; is set to; was set to; are set to; should be;
has changed to; changed to; moved to; has moved to; was moved to; is moved to; has been moved to;
went up to; went down to; rises to; was raised to; was changed to; was extended to; is at; stays at;
remains; equals; became; becomes; is actually; is still; gets; goes to; ist; ist jetzt; ist nun; sind;
beträgt; beträgt jetzt; beträgt nun; liegt bei; lautet; wurde auf; heißt; est; est de; est maintenant;
est maintenant de; sont; s'élève à; passe à; es; es de; son; ahora es; ahora es de; es ahora; será; é;
é de; agora é; são; passou para; は; 是; 为; 改为; 改成; 现在是; هي; هو; الآن; أصبح; أصبحت
"""
POSSESSIVES = """
my; our; the; this; your; his; her; their; its; mein; meine; meinem; unser; unsere; der; die; das; dein;
mon; ma; mes; notre; nos; le; la; les; l'; mi; mis; nuestro; nuestra; el; los; las; su; meu; minha; nosso;
nossa; o; a; os; as; 私の; 我的; 我们的
"""
OWN_POSSESSIVES = """
my; our; mein; meine; unser; unsere; mon; ma; notre; mi; nuestro; nuestra; meu; minha; nosso; nossa; 私の;
我的; 我们的
"""
# Before the value that no longer holds.
OLD_VALUE_CUES = """
instead of; rather than; not; from; statt; anstatt; nicht; au lieu de; pas; en lugar de; en vez de; no;
em vez de; ao invés de; não; 而不是; 不是; بدلا من; ليس
"""
# The headings of lists, by the kind of fact that their lines are.
HEADINGS: dict[str, str] = {
    "rule": """rules; rule; constraints; requirements; guidelines; conventions; Regeln; Vorgaben; règles;
        contraintes; reglas; requisitos; regras; ルール; 制約; 规则; 要求; القواعد""",
    "preference": """preferences; my preferences; Vorlieben; préférences; preferencias; preferências;
        好み; 偏好; التفضيلات""",
    "open": """todo; todos; to do; to-do; open items; open questions; action items; next steps;
        still open; remaining; pending; Offen; offene Punkte; à faire; pendientes; pendências; やること;
        待办; 待辦; المهام""",
    "decision": """decisions; decision; what we decided; agreed; Entscheidungen; décisions; decisiones;
        decisões; 決定事項; 决定; القرارات""",
}
# What tools are called that change something.
ACTION_VERBS = """
write create book commit send open deploy publish upload merge order pay schedule register save submit
insert cancel apply push reserve add post generate place release update confirm buy rename refund transfer
"""
# Changes in a file that is there already, of which a conversation has too many.
EDITING_VERBS = "edit patch replace"
READING_VERBS = "search list get read find view show query check fetch look describe status lookup grep cat"
# Commands that a shell tool may be asked to run.
SHELL_ACTIONS = """
git commit; git push; git tag; gh pr create; gh release create; kubectl apply; terraform apply;
npm publish; docker push; helm upgrade
"""
# Verbs and nouns that so many sentences share that they say nothing about their subject.
WEAK_WORDS = """
thanks thank thx danke dir merci gracias obrigado super great cool perfect ya esta estan está están já
estão schon bereits déjà already use using used run make made do does did done write add keep put get set
go take need want please sure always never must only now new change update instead actually also still
remind remember forget todo thing things time let it ok yes no not everything anything every all any
before after until from next week day today tomorrow yesterday morning heute gestern hoy ayer hier hoje
ontem later ask first one two number open item question waiting pending rule noch muss immer nie bitte
nicht mehr jetzt sehr alle toujours jamais plus tout siempre nunca más sempre mais hay que
"""
# Past forms that no rule leads back to their verb.
IRREGULAR_FORMS = """
sent:send paid:pay bought:buy written:write wrote:write made:make told:tell got:get found:find built:build
done:do ran:run gave:give spoke:speak met:meet chose:choose chosen:choose took:take taken:take brought:bring
sold:sell shipped:ship planned:plan merged:merge
"""
# Verbs that give an attribute a value, and what stands before the value.
SETTERS = """
set; change; update; raise; lower; increase; reduce; move; bump; extend; push; postpone; rename; switch;
ändere; setze; erhöhe; verschiebe; stelle; mets; passe; augmente; modifie; cambia; pon; sube; mueve; mude;
altere; coloque; aumente; غير; اجعل
"""
SETTER_JOINTS = "to; auf; zu; à; a; para; por; إلى"
CLAUSE_JOINTS = """
and; but; so; then; please; und; aber; bitte; et; mais; y; pero; e; mas; also; ok; okay; yes; hey; hi;
hello; well; just; oh
"""
# The first word, with the second one later in the clause, corrects what stands between them.
CORRECTING_PAIRS = (("not", "but"), ("nicht", "sondern"), ("pas", "mais"), ("no", "sino"), ("não", "mas"))
FIRST_PERSON = (
    "i we i'll we'll ich wir je nous on tenemos tengo temos tenho precisamos preciso hay 我 我们 私 علينا"
)
# Words of two languages; they are cues only beside one of these words.
COMPANIONS = {
    "no": "in on the to please for with without before after at or of more than any",
    "nie": "der die das den dem ich du wir ihr und auf mit mich mir nicht ein eine zu am im ohne bitte vor",
    "muss": "der die das den dem du wir ihr und auf mit nicht ein eine zu am im ohne bitte vor alle jede",
    "todo": "the : to for in on from my our list still",
    "pending": "the is are a on for review approval to from",
}
OPTION_WORDS = "option variante plan opción opção choice number nummer alternative"
OPTION_FILLERS = """
please it is go with take then ok okay yes let's i'll the one we'll bitte nehmen wir ich nehme prends s'il
te plaît por favor vamos
"""
UNITS = """
euro euros eur usd dollar dollars pounds percent people persons nights days hours minutes seconds gb mb ms
kg km
"""
# What an assistant may say the value of: it arranged it.
REPORTED_ATTRIBUTES = """
appointment meeting reservation booking delivery departure arrival total price confirmation Termin
rendez-vous cita
"""
SUBJECT_PREPOSITIONS = "for of in on at from with fur von im pour de du dans en para do da del no na"
PRONOUNS = """
i you he she it they we there what which who ich du er sie es wir je tu il elle on nous yo ella eu ele ela
"""
# Endings of verbs in the past.
PAST_ENDINGS = "ed ado ido ada ida"
PURPOSES = "for everywhere fur pour para"
# Verbs of what people choose to do: "I never fly at night" is a wish, "I never remember it" is none.
CHOICE_VERBS = """
eat drink fly take book use stay sit order buy pay work travel sleep drive read write sign deploy push
merge commit answer go wear shop rent choose share send call meet run start cook smoke ship release test
review do
"""
NUMBER_WORDS = """
one two three four five six seven eight nine ten eleven twelve zwei drei vier funf sechs sieben acht neun
zehn elf zwolf deux trois quatre cinq sept huit neuf dix dos tres cuatro cinco seis siete ocho nueve diez
dois duas quatro sete oito nove dez single seul
"""
# Units of so many things that they alone do not say what is measured.
COMMON_UNITS = """
euro euros eur usd dollar dollars pounds yen percent people persons nights days day weeks week months
month years year hours hour minutes minute min seconds second ms gb mb kg km pm am uhr tage tag wochen
monate stunden minuten sekunden jours jour semaines mois heures minutos dias dia semanas meses horas times
mal fois veces
"""
# Words for one thing: a value of one of them replaces a value of another.
CONCEPTS = (
    "departure depart fly flight flights leave outbound abflug abreise depart partons part salida partida",
    "budget spend presupuesto orcamento",
    "price cost quote offer pay kosten kostet preis angebot prix cout precio cuesta coste tarifa preco custa",
    "mail email address reach contact",
    "deadline due submission abgabe frist echeance plazo prazo",
    "colour color accent",
    "duration run laufzeit duree duracion",
)
# "It is 33 now": what an assistant says of the present.
NOW_WORDS = "now jetzt nun maintenant ahora agora 今 现在 الآن"
POLITE_WORDS = "please pls bitte stp svp porfa favor お願い 请 رجاء"
# A sentence that begins with one of these does not say what it is about.
BARE_VERBS = "needs has must should muss sollte doit devrait faut debe tiene deveria precisa deve"
