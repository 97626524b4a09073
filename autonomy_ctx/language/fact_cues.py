"""Words that tell what a sentence is about, per language, as data.

Phrases are separated by ";" and compared word by word, without case and accents (`language/phrases.py`); the
longest phrase at a place counts. "^" means: only at the beginning of a clause. A text in another language
meets no cue, and nothing is found in it.
"""

from __future__ import annotations

# What `language/fact_rules.py` finds facts by. "none" holds phrases that begin like a cue and are none.
FACT_CUES: dict[str, str] = {
    "rule": """nobody may; no one may; only ever; strictly; is a must; are a must; is off; hard rule;
        non-negotiable; has to go through; have to go through; has to stay; have to stay; needs to be;
        need to be; must be; at the latest; auf gar keinen Fall; ausschließlich; Pflicht; grundsätzlich;
        zwingend; immer nur; nicht ohne; absolument; impérativement; strictement; obligatoire; surtout ne;
        rien avant; rien après; exclusivement; obligatorio; estrictamente; bajo ningún concepto; nada antes;
        exclusivamente; imprescindible; obrigatório; de jeito nenhum; de forma alguma; estritamente; 必ず;
        決して; 以外; 厳守; 千万; 千万别; 绝对; 严禁; 必要; إطلاقا; بأي حال; حصرا; ضروري; ^rule for; rule:;
        ^ground rule; ^house rule; darf niemand; niemand außer; darf nur; dürfen nur; niemand darf;
        surtout pas; ^pas de; ^pas d'; personne sauf; regla de la casa; nadie excepto; nadie salvo; ^ningún;
        ^ninguna; ^nada de; ^nenhum; ^nenhuma; ninguém exceto; 以外は; 除了; 规定; ルール:; 规则:; لا أحد;
        ممنوع أن; ^nothing over; ^nothing above; ^nothing under; ^nothing below; nobody but; no one but;
        nobody except; only with; use everywhere; never; always; must; must not; mustn't; must never; ^don't;
        ^do not; ^dont; ^please don't; you don't; you do not; from now on; going forward; ^only; use only;
        only use; make sure; ^ensure; ^no; ^avoid; not allowed; is forbidden; are forbidden; is prohibited;
        off limits; under no circumstances; at all times; without my approval; without asking;
        without my permission; ask me before; ask me first; check with me; ^stick to; ^keep; may not;
        is required; are required; is mandatory; ^at most; ^no more than; ^remember that; ^remember to;
        ^the rule is; ^no more; we don't; we never; we always; ^i never; i want you to always;
        i want you to never; has to be; ^whenever; ^treat; don't ever; hands off; ^leave; should never;
        should always; nie; niemals; immer; stets; ab jetzt; ab sofort; von nun an; künftig; in Zukunft;
        darf nicht; dürfen nicht; darfst nicht; auf keinen Fall; unter keinen Umständen; muss; müssen;
        nicht ohne meine; achte darauf; ^bitte nicht; ^bitte kein; ^bitte keine; ^keine; ^nur; nur noch;
        ^frag mich; frag mich vorher; ist verboten; ^vermeide; ohne meine Zustimmung; jamais; toujours;
        désormais; dorénavant; à partir de maintenant; il ne faut pas; ne doit pas; ne doivent pas; doit être;
        doivent être; doit; en aucun cas; interdit de; est interdit; assure-toi; assurez-vous;
        sans mon accord; demande-moi avant; uniquement; ^évite; ^évitez; ne touche pas; ne touchez pas; nunca;
        jamás; siempre; a partir de ahora; de ahora en adelante; en ningún caso; no debe; no deben;
        no se debe; debe ser; debe; deben; no uses; no toques; no envíes; no borres; no hagas; no cambies;
        no despliegues; no compartas; no reserves; asegúrate; sin mi aprobación; sin mi permiso;
        está prohibido; pregúntame antes; ^evita; ^solo; únicamente; sempre; a partir de agora;
        daqui em diante; de agora em diante; em hipótese alguma; não deve; não devem; deve; devem; não use;
        não toque; não envie; não apague; não altere; não faça; certifique-se; sem a minha aprovação;
        sem minha aprovação; é proibido; pergunte-me antes; ^evite; ^somente; ^apenas; 絶対に; 常に; 今後は;
        これからは; しないで; しないでください; ないでください; してはいけ; 禁止; なければならない;
        なければなりません; べからず; 厳禁; だけ使; のみ使; てはなりません; 必须; 必須; 永远不要; 永遠不要;
        绝对不要; 絕對不要; 绝不; 絕不; 从不; 不要; 不得; 不准; 不许; 从现在起; 从现在开始; 以后都; 以后必须;
        今后; 一律; 务必; 始终; 总是; 切勿; 只能; 未经我; أبدا; دائما; يجب; يجب أن; لا يجب; ممنوع;
        من الآن فصاعدا; لا ترسل; لا تستخدم; لا تحذف; لا تلمس; لا تنشر; لا تغير; تأكد من; فقط استخدم; لا يجوز;
        بدون موافقتي; دون موافقتي; يمنع; banned; is banned; are banned; off the table; no-go; taboo;
        isn't allowed; aren't allowed; not permitted; doesn't let us; doesnt let us; don't let us;
        dont let us; won't let us; won't let me; won't have; mustnt; can't be; cannot be; can only; may only;
        can't start; cannot start; is not to; are not to; isn't to; ^nothing; ^nobody; ^no one; whatsoever;
        or nothing; written in stone; set in stone; one thing clear; ^whatever you; ^whatever we;
        ^whatever they; whatever happens; rule one; rule number; first rule; golden rule; legal reminder;
        house policy; company policy; policy is; there are no; there is no way; unless i; unless we;
        until i've; before i've; before i have; has to go; have to go; by default; do without; like you to;
        like us to; wants us to; want us to; out of the question; out of bounds; no exceptions;
        without exception; ^any and all; do not ever; refrain from; ^nie; ^niemand; ^nichts; geht nichts;
        darf nichts; dürfen keine; darf keine; darf kein; nichts ohne; nichts vor; ausnahmslos; tabu;
        ist tabu; verboten; untersagt; kommt nicht in Frage; bevor ich nicht; Hauptregel; Grundregel;
        ist gesetzt; lass die Finger; Finger weg; keinesfalls; ^personne; ^rien; donc rien; rien ce; rien le;
        rien sans; interdiction; proscrit; hors de question; est exclu; pas question; à signaler;
        n'a le droit; sans exception; tant que je; ne jamais; ^nada; ^nadie; no sube nadie; nadie puede;
        nadie sube; ni un; ni una; prohibido; prohibida; queda prohibido; que quede claro; no se puede;
        no se pueden; sin excepción; no pongas; no pongáis; no mandes; no llames; no digas; no les digas;
        no metas; no pidas; no quiero; nunca más; terminantemente; ^ninguém; nem um; nem uma; proibido;
        proibida; não pode; não podem; sem exceção; que fique claro; fora de questão; não quero; は無理;
        無理です; はだめ; はダメ; 避けて; なしで; 必須です; 绝对不能; 不能; 不可以; 不可; 禁; بدون; لا أريد;
        لا نريد; غير مسموح; ولا; a hard no; hard no; nichts verloren; nichts zu suchen; ist mir heilig;
        non négociable; c'est non; ne part; ne travaille qu'avec; qu'avec; que des; que du; no vale; no valen;
        no le llega; no matter how; no matter what; drilled it into me; we don't do; we do not do; goes via;
        go via; goes through; go through; get to see; nur mit; nur gegen; nur über; nur nach; nur per;
        seulement avec; seulement si; solo con; solo si; sólo con; só com; só depois; só se;
        under no condition; important that; it's important; it is important; wichtig ist; wichtig dass;
        wichtig , dass; il est important; c'est important; es importante; é importante; ^under; ^below; ^max;
        ^maximum; ^minimum; ^less than; ^fewer than; ^höchstens; ^maximal; ^mindestens; ^unter; ^moins de;
        ^au plus; ^au moins; ^menos de; ^máximo; ^como máximo; ^mínimo; ^no máximo; ^não; ^لا; is allowed to;
        are allowed to; only one allowed; stay out of; stays out of; keep out of; i don't want any;
        we don't want any; i don't want you; i do not want; we do not want; make everything; i want all;
        i want every; i want everything""",
    "preference": """duzen; siezen; me tutoyer; on se tutoie; vouvoyer; tutéame; trátame de; végétariens;
        végétariennes; vegetarianos; vegetarianas; veganos; veganas; i'd like them; id like; i'd like the;
        keep it short; keep it simple; in plain words; in simple words; we love; we like; we hate; we enjoy;
        we don't like; not into; doesn't eat; doesn't like; doesn't drink; can't eat; can't drink; loves;
        hates; i prefer; i'd prefer; i would prefer; we prefer; we'd prefer; i like; i really like; i love;
        i hate; i dislike; i can't stand; i'd rather; i would rather; we'd rather; i don't like;
        i do not like; i don't eat; i don't drink; i do not eat; i do not drink; i don't fly; i can't eat;
        allergic; allergy; intolerant; vegetarian; vegan; pescatarian; kosher; halal; gluten-free; lactose;
        my favorite; my favourite; our preference; my preference; i'm a fan of; i enjoy; preferably;
        works best for me; i always; i usually; i'm more of a; i tend to; i'm not a fan; afraid of flying;
        i'd like my; i like my; prefers; she prefers; he prefers; they prefer; wheelchair; i'm diabetic;
        i'm scared of; ich bevorzuge; ich mag; ich mag keine; ich mag kein; am liebsten; lieber;
        ich esse kein; ich esse keine; ich trinke kein; allergisch; Allergie; Vegetarier; Vegetarierin;
        vegetarisch; Veganer; Veganerin; ich hasse; mir ist lieber; ich ziehe; ich liebe; Unverträglichkeit;
        je préfère; nous préférons; j'aime; je n'aime pas; j'adore; je déteste; allergique; végétarien;
        végétarienne; végétalien; je ne mange pas; je ne bois pas; plutôt que; mon préféré; ma préférée;
        j'aimerais mieux; prefiero; preferimos; me gusta; me gustan; no me gusta; no me gustan; me encanta;
        me encantan; odio; alérgico; alérgica; vegetariano; vegetariana; vegano; vegana; no como; no bebo;
        prefiro; eu gosto; gosto de; não gosto; adoro; detesto; odeio; não como; não bebo; prefería;
        preferiría; preferia; 好きです; が好き; 好きではない; 嫌いです; が嫌い; 苦手; の方がいい;
        のほうがいい; 方が好き; アレルギー; ベジタリアン; 菜食; 好み; 我喜欢; 我更喜欢; 更喜欢; 我偏好; 偏好;
        我不喜欢; 我讨厌; 过敏; 素食; 我不吃; 我吃素; 宁愿; 我爱吃; 我喜歡; 我更喜歡; 過敏; أفضل أن; أنا أفضل;
        أفضّل; أحب; لا أحب; أكره; نباتي; نباتية; حساسية; لا آكل; لا أشرب; any day; is better for;
        works better; better for me; better for us; better for him; better for her; easier to work with;
        easier to read; i find; we're into; i'm into; were into; im into; a pain to; i zone out;
        first name basis; if you can do; big fan of; not a fan of; can't have; cant have; doesn't tolerate;
        can't tolerate; makes me sick; over anything; feel free to skip; the shorter the better;
        the simpler the better; suits me; suits us; suit me; suits him; suits her; i work best;
        in the mornings; i'd go for; we'd go for; id go for; i favour; i favor; i lean; we lean;
        vertrage kein; verträgt kein; verträgt keine; vertrage keine; ist mir lieber; wäre mir lieber;
        finde ich besser; ist besser für; mag ich; mag kein; les ich nicht; passt mir besser;
        gefällt mir besser; ungern; ich bin kein Fan; ne supporte pas; ne supporte plus; ne tolère pas;
        c'est mieux pour; c'est mieux; plutôt le; plutôt la; plutôt les; plutôt des; de préférence; m'arrange;
        nous arrange; je suis plutôt; allergie; intolérant; intolérante; intolérance; no tolera; no tolero;
        le sienta mal; me sienta mal; mejor por; mejor para; mejor con; me va mejor; nos va mejor; alergia;
        alérgicos; intolerante; de preferencia; a ser posible; mejor sin; não tolera; faz mal; melhor por;
        melhor para; alergia a; de preferência; がいいです; がいい; のがいい; が合いません; 比较好; 更好;
        不太喜欢; 吃不了; يفضل; تفضل; نفضل; تحب; يحب; لا يحب; لا تحب; يناسبني; hätte ich gern; hätte gern;
        hätten gern; hätte ich gerne; hätte lieber; wäre schön; je m'y retrouve mieux; je préférerais;
        ça m'arrange; can't stand; hate scrolling; me peleo; me resulta más fácil; me es más fácil;
        acho melhor; fico mais à vontade; i don't want to; we don't want to; i want it; i want my;
        i want them; sprich mich; sprecht mich; address me; tutoie-moi; appelle-moi par; per person;
        pro Person; par personne; por persona; por pessoa""",
    "decision": """we'll have; we'll get; we're taking; we're doing; i'm taking; we are taking; we'll leave;
        the winner is; final answer; final choice; we're sticking; it'll be; we will keep; we will stay;
        we will take; i'll keep; i'll have; i want the; let it be; we picked; i picked; we've chosen;
        we've picked; we've agreed; ^keep the; we won't; we're not going; not going to; no longer going;
        ist entschieden; steht fest; wir haben gewählt; wir wählen; ich wähle; wir lassen; wird es;
        soll es sein; haben uns geeinigt; wir behalten; on choisit; on va faire; on fera; on va garder;
        on s'est mis d'accord; c'est tranché; ce sera; nous allons prendre; lo hemos decidido; está decidido;
        nos vamos con; vamos a hacer; vamos a dejar; será el; será la; me decido por; hemos elegido;
        hemos acordado; mantenemos; ficou combinado; vamos fazer; vai ser; decidimos por; mantemos; escolhi;
        に決定しました; を選びます; にしておきます; でお願いします; に絞り; 选定; 就定; 定为; 敲定; 选了;
        最终选择; وقع الاختيار; اعتمدنا; قررت أن; سنكتفي; stays in; stays at; stays with; stays as; stay in;
        stay as; bleibt bei; bleibt in; bleibt drin; bleibt wie; reste en; reste à; reste comme; se queda en;
        se quedan en; fica em; ficam em; we go with; we go for; we take; we keep; we're keeping; we'll stay;
        we stay with; we stay in; we skip; we focus on; we drop; we leave out; then we use; so we use;
        is settled; it's settled; are settled; decided against; sticking with; we stick with; we stick to;
        wir machen das so; wir gehen mit; es bleibt bei; bleiben bei; wir verzichten auf; wir lassen das;
        on laisse tomber; on abandonne; on renonce à; on reste sur; va pour; nous gardons; nous prenons;
        lo dejamos en; descartamos; ^decidido; nos decidimos por; vamos manter; ficou decidido;
        deixamos de lado; で決まり; はやめます; はなしで; は無しで; 决定; 定下来; 还是用; 就去; 不用了;
        استقر الرأي; سنبقى; سنختار; لن نستخدم; let's not; ^use instead; we decided; i decided; i've decided;
        we've decided; we have decided; i have decided; it's decided; decided to; decided on; let's go with;
        let's use; let's take; let's go for; let's stick with; let's do; let's keep; let's pick; let's choose;
        let's switch to; we'll use; we will use; we'll go with; we will go with; i'll go with; i'll take;
        i'll use; i will take; we're going with; we are going with; i'm going with; ^go with; ^go for;
        ^take the; ^pick the; settled on; we settled; we agreed; agreed to; agreed on; as agreed; agreed:;
        the decision is; decision:; we chose; i chose; i choose; we choose; it is then; approved:;
        final decision; we're using; we are using; we'll keep; i pick; we opted; i opted; opted for; we'll do;
        we'll take; we'll drop; let's drop; let's skip; we'll skip; ^decided:; we'll move; we'll switch to;
        we're switching to; the plan is to; i accept; we'll stay with; let's stay with; wir haben entschieden;
        wir haben uns entschieden; ich habe mich entschieden; haben beschlossen; wir nehmen; ich nehme;
        wir verwenden; wir nutzen; lass uns; lasst uns; wir machen; nehmen wir; wir einigen uns; abgemacht:;
        Entscheidung:; wir bleiben bei; beschlossen; vereinbart; entschieden; wie vereinbart;
        nous avons décidé; on a décidé; j'ai décidé; on va prendre; on prend; je prends; nous allons utiliser;
        on va utiliser; on utilise; allons-y avec; on part sur; partons sur; c'est décidé; décision:;
        on garde; je choisis; nous choisissons; comme convenu; nous avons choisi; hemos decidido; decidimos;
        he decidido; decidí; vamos con; vamos a usar; usaremos; me quedo con; nos quedamos con; elegimos;
        elijo; acordamos; quedamos en; decisión:; como acordamos; decidi; vamos usar; vamos de; ficamos com;
        fico com; escolhemos; escolho; combinamos; decisão:; foi decidido; vamos ficar com; optamos por;
        に決めました; に決めた; ことにしました; ことにします; にします; にしましょう; で行きましょう;
        でいきましょう; を採用; 決定しました; に決定; で進め; を使うことに; 我们决定; 我决定; 决定用;
        决定使用; 决定了; 决定采用; 我们用; 就用; 就选; 选择了; 就这么定; 采用; 我们选; 那就; 定了; 我們決定;
        決定用; قررنا; قررت; لقد قررنا; سنستخدم; سوف نستخدم; اخترنا; اخترت; اتفقنا; لنستخدم; لنعتمد; سنعتمد;
        تقرر; my choice is; our choice is; my pick is; our pick is; our pick; my pick; choice fell on;
        won out; made up our minds; made up my mind; end of discussion; end of story; full stop; that's final;
        thats final; it's final; no more debate; ^sold; sold:; settled:; deal:; verdict:; outcome:;
        everyone agreed; everybody agreed; all agreed; team voted; we voted; the vote; voted for; the winner;
        ^out with; ^in with; ^down with; is getting cut; gets cut; got cut; is cut; are cut; is out; is gone;
        gets dropped; is dropped; is scrapped; scrap the; ditch the; ditching; we ditch; lets ditch;
        let's ditch; we scrap; roll with; rolling with; lets go; lets use; lets take; lets do; lets roll;
        let's roll; lets stick; lets keep; lets make; we hire; we run; slept on it; on reflection;
        we've gone with; we went with; i went with; going with; going for; we landed on; landed on;
        we ended up; ended up with; we'll go; we'll try; we'll start; we'll stick; we will go; instead we;
        gave the green light; green light for; signed off on; was approved; got approved; has been approved;
        is approved; choosing; we're choosing; i've chosen; i have chosen; i've picked; i've settled;
        were not; we aren't; we're not; no need for the; call it; it'll get; it's going to be;
        its going to be; is going to be; are going to be; we'd like to try; would like to try; has spoken;
        wir entscheiden; wir probieren; wir sparen; sparen wir; machen wir; wir lassen uns; ich mach das;
        Wahl fiel; fiel die Wahl; wird genommen; bleibt es; bleibt's; dabei bleibt; Ende der Diskussion;
        wir fahren mit; wir gehen auf; haben uns für; habe mich für; hab mich für; Zuschlag; fliegt raus;
        kommt weg; wird gestrichen; gestrichen; ist raus; ist vom Tisch; wurde beschlossen; on a tranché;
        j'ai choisi; on a choisi; a été choisi; notre choix; mon choix; on opte pour; nous optons; on retient;
        attendra; on mise sur; on s'en tient; point final; on supprime; est supprimé; on a voté; c'est validé;
        est validé; on fait l'impasse; ça sera; quedamos; nos decantamos; me decanto; optamos; elegido;
        elegida; hemos optado; al final será; será cien; lo cerramos; cerramos con; tiramos de; apostamos por;
        se cancela; se elimina; y punto; y ya; queda decidido; hemos votado; comemos; haremos; iremos;
        nos vamos; la elección; ganó; gana; fica decidido; a escolha; batemos o martelo; fechamos com;
        fechado; optei; vamos com; vai ficar; e ponto; cancelamos; 決めました; 決まりです; にした; 選びました;
        で行く; にすることに; 取りやめ; 选好; 选择; 确定用; 就这样定; 定好; 决定好; 不做了; 取消; فلتكن;
        فليكن; استقررنا; سنأخذ; اتفقت; ألغينا; is the one; are the one; it's the one; c'est acté; acté;
        est acté; lo quito; la quito; lo elimino; lo descarto; quitamos; eliminamos; lo dejo; los quito;
        is history; ist Geschichte; leaving it for; leaving that for; leaving it at; leave it at; keeping it;
        keeping the; dropping; i'd say; id say; we're good with; good with; happy with; we like the first;
        we like the second; i like the first; i like the second; hat getagt; wird gemacht; sticks; stays;
        bleibt; bleiben; reste; restent; se queda; se quedan; fica; ficam; laufen künftig; läuft künftig;
        laufen per; läuft per; läuft über; gehen per; passer par; on passera; passe par; va por; van por;
        van con; van en; va con; va en; vai por; vão por; opted; voted; opté; choisi; escolheu; gewählt;
        geeinigt; le choix; die wahl; my vote; our vote; final call; final word; last word; we'd like the;
        going to use; i'm going to use; we're going to; se eligió; foi escolhido; ha elegido; a choisi;
        a opté; chose the; they chose; he chose; she chose; committee chose; team chose; board chose;
        client chose""",
    "open": """i still need; we still need; still to do; still to be; to be done; to sort out; need to sort;
        has yet to; have yet to; not sorted; isn't clear; not clear yet; is unclear; unanswered; no word from;
        haven't got; hasn't sent; hasn't come; hasn't arrived; hasn't confirmed; haven't received;
        didn't get back; owes me; owe me; chase up; chasing; must not forget; mustn't forget; need to ask;
        have to ask; need to call; have to call; awaiting; on hold; left open; open point; ist noch offen;
        noch offen; offen; ungeklärt; klären wir noch; noch klären; noch fragen; noch buchen; noch bezahlen;
        hat noch nicht; haben noch nicht; wartet auf; darf ich nicht vergessen; sollte noch; sollten noch;
        müsste noch; en suspens; à régler; à voir; n'a pas répondu; n'ont pas répondu; pas reçu; me falta;
        nos falta; está por; sin resolver; sin confirmar; por confirmar; no he recibido; no hemos recibido;
        no ha llegado; preciso de; está pendente; pendente; por resolver; não recebi; não chegou; まだ決ま;
        決まっていません; 確認中; 待ち; 忘れずに; 必要があります; 还得; 还差; 待处理; 没收到; 等着; 别忘;
        ما زال; لا يزال; لم يصل; لم نستلم; يجب ألا ننسى; تبقى; needs to happen; has to happen; no reply yet;
        no answer yet; no response yet; no news yet; isn't signed; isn't done; isn't fixed; isn't ready;
        isn't booked; isn't paid; is not signed; is not fixed; haven't found; havent found; haven't decided;
        havent decided; not decided; undecided; haven't heard; hasn't replied; hasn't answered;
        someone needs to; somebody needs to; someone should; somebody has to; someone must;
        don't let me forget; dont let me forget; make sure i don't forget; still don't know;
        couldn't find out; could not find out; come back to you; get back to you; not changed yet;
        still needs; still missing; muss ich noch; müssen wir noch; muss noch jemand; jemand muss;
        jemand müsste; steht aus; ausstehend; nicht gemeldet; keine Antwort; on attend; pas de réponse;
        penser à; pense à; il faut que je; il faudra; ^à faire; quelqu'un doit; toujours pas de;
        alguien tiene que; alguien debe; sin respuesta; no ha respondido; no han respondido; sigue pendiente;
        acuérdate de; há que; alguém tem que; alguém precisa; sem resposta; não respondeu; não responderam;
        falta fazer; しないと; ないといけない; がまだ; 返事を待って; 回答待ち; 决不能忘; 还没有; 等回复;
        没有回复; 得去; 有人得; لم يرد; لم يردوا; على أحد أن; لا بد أن; put that on the list;
        put it on the list; add that to the list; on the to-do list; on the todo list; remind me; todo;
        to do:; to-do; still need to; still needs to; still have to; still has to; still need; don't forget;
        do not forget; ^remember to call; waiting for; waiting on; open question; open item; open items;
        still open; pending; follow up; to be decided; to be confirmed; tbd; outstanding:; remains to be;
        get back to me; needs to be done; haven't yet; hasn't been; not yet; next step:; next steps:;
        need to before; we need to decide; on my list; remaining:; left to do; unresolved; still unresolved;
        unclear who; i still owe; still outstanding; i owe; action item; action items; needs an answer;
        let's come back to; come back to this; blocked on; blocked by; still waiting; yet to; someone has to;
        i have to remember; later today; i need you to later; erinnere mich; erinner mich; vergiss nicht;
        nicht vergessen; muss noch; müssen noch; fehlt noch; fehlen noch; offene Frage; offen ist; warte auf;
        warten auf; warten noch auf; noch nicht; noch zu erledigen; steht noch aus; stehen noch aus;
        wir müssen noch; ich muss noch; zu klären; rappelle-moi; rappelez-moi; n'oublie pas; n'oubliez pas;
        il faut encore; il reste à; reste à; on doit encore; nous devons encore; je dois encore;
        en attente de; en attente; j'attends; nous attendons; question ouverte; à faire:; pas encore;
        il manque encore; à confirmer; recuérdame; recuérdanos; no olvides; no te olvides; todavía hay que;
        aún hay que; todavía tenemos que; aún tenemos que; todavía falta; aún falta; falta por;
        queda pendiente; pendiente; pendientes; esperando; a la espera de; por hacer:; todavía no; aún no;
        me lembre; lembre-me; lembra-me; não esqueça; não se esqueça; ainda falta; ainda faltam;
        ainda precisamos; ainda preciso; ainda temos que; ainda tenho que; aguardando; à espera de;
        esperando por; ainda não; a fazer:; em aberto; tengo que antes; queda por; 思い出させて; リマインド;
        忘れないで; まだ; 残って; 待っています; 返事待ち; 未解決; 未定; 要確認; やること; しなければ; 後で;
        保留; 提醒我; 别忘了; 別忘了; 记得; 記得; 待办; 待辦; 还需要; 還需要; 还要; 还没; 還沒; 尚未; 等待;
        在等; 未解决; 待定; 待确认; 回头; ذكرني; ذكريني; لا تنس; لا تنسى; ما زلنا بحاجة; ما زال علينا;
        لا يزال علينا; في انتظار; بانتظار; أنتظر; ننتظر; لم يتم بعد; معلق; قيد الانتظار; سؤال مفتوح;
        loose end; loose ends; sticking point; blocker; open issue; outstanding issue; one gap; gap i noticed;
        remains unclear; is still unclear""",
    # The same in a user's words; an assistant says these of many things.
    "due": """gotta; gonna have to; going to have to; we've got to; weve got to; i've got to; ive got to;
        have got to; got to; ought to; needs doing; need to look; should hear; hear back; they'll let;
        they will let; he'll let; she'll let; will let us; will let me; 'll get back; will get back;
        in the dark; up in the air; crickets; radio silence; no idea yet; don't know yet; dont know yet;
        not known yet; nothing has come; nothing so far; nothing yet; so far nothing; so far no; not so far;
        no date yet; nobody has; no one has; haven't started; havent started; haven't done; havent done;
        hasn't started; hasnt; havent; we do not have; is missing; are missing; still no; all that's left;
        left is to; one gap; gap i noticed; could use; note to self; to tackle; to look into; needs looking;
        one for next; for next week; for next sprint; next sprint; is on me; it's on me; dont lose it;
        don't lose it; i promised; we promised; promised me; promised us; promised to; has promised;
        is with legal; is with finance; that's with; thats with; sitting with; in their court; to chase;
        must remember; remember to; keep an eye; bugs me; we need to; i need to; we have to; i have to;
        we must; i must; not signed; not checked; not paid; not booked; not sent; not finished; not answered;
        not confirmed; not tested; not started; needs to; due by; someone has; somebody should; who can;
        will need to be; needs to be paid; by end of; by the end of; wants a; expects a; expecting;
        expect an answer; i'm expecting; hab ich noch; haben wir noch; habe ich noch; hat noch; ich sollte;
        wir sollten; sollte ich; sollten wir; sollte mal; muss ich; müssen wir; müsste mal;
        kommen wir nicht weiter; komme ich nicht weiter; trödelt; lässt auf sich warten; nirgends gefunden;
        nicht gefunden; wollte sich melden; meldet sich; melden sich; Bescheid geben; gibt Bescheid;
        geben Bescheid; hat versprochen; keine Rückmeldung; Rückmeldung; noch keine; noch kein; noch keinen;
        muss mir; müsste ich; vormerken; Merkzettel; fehlt; fehlen; müssen uns; ne me laisse pas oublier;
        ne pas oublier; n'oublions pas; toujours pas; n'a toujours; n'avons pas; il me faut; il nous faut;
        reste encore; doit me; doit nous; doivent me; doivent nous; me dira; nous dira; nous dire; me dire si;
        pas de nouvelles; sans nouvelles; sans réponse; à relancer; à prévoir; à réserver; à acheter;
        à demander; devra; devrai; devrons; a promis; manque; on devrait; je devrais; falta; faltan;
        habrá que; habría que; me dirá; nos dirá; me dirán; nos dirán; sin noticias; no tenemos; no sabemos;
        no se sabe; debería; deberíamos; toca; queda; que no se me olvide; que no se nos olvide; no nos han;
        no me han; prometió; ha prometido; quedó en; quedaron en; necesito que; tenemos pendiente;
        precisa ser; é preciso; vai me dizer; vão nos dizer; sem notícias; não temos; não sabemos; deveríamos;
        faltam; prometeu; ficou de; ficaram de; não posso esquecer; 必要です; しなきゃ; 返事がありません;
        返事がない; 連絡待ち; 決めていない; 要做; 得做; 需要; 没回; 没消息; 没定; لازم; علي أن; علينا; لم ترد;
        لم يصلنا; يجب علي; بقي; لم نقرر; ينقصنا; il faut; on doit; je dois; nous devons; tengo que;
        tenemos que; tenho que; temos que; needs a; hay que; i'll have to; we'll have to; is left is;
        we don't have any; we dont have any; not have in; fingers crossed; hopefully; hope they; hope he;
        hope she; let's hope; hoffentlich; espérons; ojalá; a ver si; tomara; loose end; loose ends;
        never named; never gave; never came; never replied; never answered; never sent; never told;
        auf sich warten; unklar; ungewiss; unclear; unsure; no clue why; no clue; no idea why;
        no idea whether; not clear; get to the bottom; bottom of it; demands; pas sûr; pas certain; pas clair;
        no está claro; no sé si; no sé cuándo; não sei se; à vérifier; à trouver; à faire; à finir; à envoyer;
        à appeler; por ver; por decidir; por resolver; hace falta; nos hace falta; me hace falta; me quedan;
        nos quedan; me queda; nos queda; doesn't exist; does not exist; doesn't work; does not work;
        steht aus; stehen aus; steht noch; dran denken; kümmert sich; darum kümmern; i'll ask; i'll call;
        i'll send; i'll check; i'll look; i'll find out; i'll get to; i'll do; i'll write; i'll bring;
        i'll try; i'll fix; i'll sort; i'll order; i'll email; i'll book; i'll let; i will ask; i will call;
        i will send; i will check; i will find; ich kümmere; kümmer mich; ich frage; ich frag; ich rufe;
        ich melde; ich schicke; ich besorge; je m'en occupe; je vais demander; je vais appeler;
        je vais envoyer; je demande; j'appelle; voy a preguntar; voy a llamar; voy a mandar; ya preguntaré;
        preguntaré; llamaré; vou perguntar; vou ligar; vou mandar; lying around; sits on my desk; on my desk;
        half done; half finished; in progress; work in progress; under way; ongoing; being looked into;
        looking into; under review; in review; to be seen; remains open; hängt noch; hängt an; liegt noch;
        läuft noch; in Arbeit; in Klärung; en cours; pas fini; pas terminé; en curso; en trámite; a medias;
        sin terminar; em andamento; inacabado; sin firmar; sin pagar; unpaid; unsigned; unfinished; unsent;
        overdue; überfällig; fällig; unbezahlt; en retard; impayé; impayée; vencida; vencido; atrasado;
        is asking for; are asking for; keeps asking for; keep asking for; legal's asking; wants to see;
        what we do not have; what we don't have; what i don't have; what's missing; what is missing;
        what i still; what we still; what remains; what's left; whats left; what is left; ^need to; ^have to;
        ^must; ^need a; ^need some; ^need new; i need; we need; i need a; we need a; i should; we should;
        heard back; never heard; keep forgetting; keeps forgetting; is supposed to; are supposed to;
        was supposed to; the matter of; can't proceed; can't continue; can't go on; waiting to; i'm waiting;
        call me back; calls me back; call back; calls back; wir müssen; ich muss; ich müsste; wir müssten;
        du musst; brauchen noch; brauche noch; wir brauchen; ich brauche; wollte noch; wollten noch;
        will noch; me tienen que; nos tienen que; tiene que; tienen que; deve passar; doit passer; doit venir;
        doit envoyer; doit rappeler; doivent passer; doivent envoyer; il doit; elle doit; ils doivent;
        y a encore; fällig am; à rendre; hay pendiente; le toca; me toca; nos toca; someone still; nobody's;
        no one's; no he; no hemos; no han; no me ha; no nos ha""",
    # Somebody was asked, and may answer.
    "inquiry": """^emailed; ^asked; ^wrote to; ^contacted; ^messaged; ^pinged; ^applied for; i've asked;
        i asked; we asked; i emailed; i've emailed; we've applied; i applied; i've requested; i requested;
        i've written to; i wrote to; ich habe angefragt; hab angefragt; habe geschrieben; hab geschrieben;
        j'ai écrit; j'ai demandé; he pedido; he preguntado; pedí; pregunté; escribí; pedi; perguntei;
        escrevi""",
    "done": """went out; gone out; came through; came in; is through; crossed off; ticked off; all set;
        is sorted; got back; replied; settled; collected; eingegangen; abgegeben; eingereicht; beglichen;
        überwiesen; geklärt; abgehakt; réglé; réglée; déposé; répondu; rendu; c'est bon; resuelta; entregada;
        arreglado; arreglada; contestado; ya está; ya están; solucionado; resolveu; já está; já foi;
        entreguei; respondeu; 片付きました; 受け取りました; 返事が来ました; 办完; 处理好; 搞好; 回复了; تسلمت;
        استلمت; رد; are out; imported; picked up; dropped off; renewed; angekommen; geliefert; vollständig;
        komplett; ist da; sind da; liegt vor; eingetroffen; abgeholt; beantragt; arrivé; arrivée; arrivés;
        livré; livrée; remplacé; remplacée; changé; changée; subido; subida; subidos; subidas; llegó;
        llegaron; entregado; recogido; chegou; chegaram; entregue; enviados; 届きました; 済ませました; 到了;
        收到了; 办好了; 买好了; 寄出; وصل; وصلت; done; it's done; that's done; is done; finished; completed;
        fixed; resolved; solved; sorted; paid; sent; booked; merged; closed; shipped; deployed; signed;
        cancelled; canceled; no longer needed; taken care of; handled; confirmed; received; arrived; called;
        invited; bought; ordered; written; wrote; submitted; updated; uploaded; rotated; published; delivered;
        got the; passed; works now; is in place; checked off; scheduled; answered; reviewed; erledigt; fertig;
        gemacht; abgeschlossen; bezahlt; gebucht; gelöst; behoben; verschickt; gesendet; geschickt;
        geschrieben; bestellt; unterschrieben; reserviert; gekauft; repariert; eingeladen; verlängert; fait;
        c'est fait; terminé; terminée; payé; payée; réservé; réservée; envoyé; envoyée; résolu; résolue;
        corrigé; corrigée; signé; signée; reçu; reçue; acheté; commandé; renouvelé; fini; hecho; hecha; listo;
        lista; terminado; terminada; pagado; pagada; reservado; reservada; enviado; enviada; resuelto;
        corregido; corregida; firmado; comprado; ya pagué; ya reservé; ya envié; renovado; llamé; pagué;
        reservé; envié; feito; feita; pronto; pronta; concluído; concluída; pago; paga; resolvido; resolvida;
        corrigido; corrigida; assinado; reservei; paguei; enviei; liguei; comprei; 完了; 終わりました;
        終わった; 済み; 済んだ; 済みました; 直りました; 修正しました; 予約しました; 支払いました; 送りました;
        解決しました; できました; 完成; 完成了; 搞定; 做完; 做好了; 修好了; 已经; 已修复; 已付; 已预订;
        已发送; 解决了; 付了; 订好了; 交了; 寄了; تم; تمت; انتهى; انتهيت; انتهينا; دفعت; حجزت; أرسلت; أنجزت;
        اكتمل; took care of; taken care; that's sorted; thats sorted; it's sorted; sorted it; sorted that;
        sorted out; out of the way; off my plate; off the list; off our list; is here; are here;
        came this morning; has come; have come; turned up; showed up; came back; came with; came today;
        went through; gone through; ran through; is live; are live; went live; is online; is running;
        is working; works fine; works again; gave us; gave me; finally gave; finally got; finally have;
        got those; got them; got our; got my; we got; i got; redid; redone; new take; sent over; handed over;
        handed in; turned in; filed; put in; wrapped up; wrapped; knocked out; nailed; squared away;
        dealt with; done with; ticked; pushed it; installed; replaced; repaired; cleaned; tested; verified;
        translated; posted; mailed; registered; recorded; reserved; hired; approved; granted; issued;
        transferred; refunded; switched; migrated; removed; deleted; created; finalised; finalized; printed;
        painted; planted; measured; bears; complete; is complete; in the bag; all good; all done; in the post;
        on its way; found it; found one; found a; found the; tracked down; said yes; gave the go; gave the ok;
        ok'd; is coming; coming on; hat sich erledigt; hat geklappt; hat geantwortet; hat zugesagt;
        hat unterschrieben; hochgeladen; abgeschickt; eingescannt; nachgereicht; ausgefüllt; abgelegt;
        eingerichtet; ausgetauscht; aufgebaut; angerufen; abgesagt; zugesagt; angemeldet; umgemeldet;
        ist durch; vom Tisch; liegt bei; unter Dach und Fach; bin durch; gefunden; besorgt; organisiert;
        vereinbart; beantwortet; bestätigt; genehmigt; installiert; getestet; aktualisiert; übersetzt;
        gestrichen; montiert; bekommen; erhalten; calé; calée; bouclé; bouclée; validé; validée; obtenu;
        obtenue; trouvé; trouvée; rempli; remplie; inscrit; appelé; reçus; posé; posée; imprimé; c'est réglé;
        est réglé; c'est calé; c'est bouclé; ça y est; s'en est occupé; je m'en suis occupé; renouvelée;
        récupéré; récupérée; installé; accepté; acceptée; confirmé; confirmée; contratado; contratada; pedido;
        pedida; encargado; encargada; cerrado; cerrada; confirmado; confirmada; conseguido; conseguida;
        encontrado; apuntado; inscrito; instalado; probado; respondido; aprobado; aprobada; devuelto;
        recibido; recibida; ya tengo; ya tenemos; ya lo he; ya la he; ya los he; ya las he; ya hemos; ya he;
        menos mal; me ocupé; me encargué; quedó listo; quedó resuelto; nos acompaña; ya vino; contratei;
        encomendei; resolvi; consegui; conseguimos; confirmou; já tenho; já temos; já chegou; já fiz;
        já mandei; fechado; recebido; recebi; 届いた; 取れました; 決まりました; 手配できました; 買いました;
        提出しました; 連絡しました; 借りました; 弄好; 办好; 拿到; 交好; 换好; 打过电话; 回信了; 确认了; 已;
        اشتريت; وصلنا; جاهز; جاهزة; خلصت; سلمت; اتصلت; أكدت; وافق; وافقت; ردت; got it done; got it sorted;
        raus; ist weg; sind weg; in the mail; added; put new; returned; reset; talked to; spoke to;
        spoke with; met with; had the; got rid of; replied to; is clean; are clean; fed; marcada; marcado;
        compradas; comprados; compradas las; contestó; respondió; pagadas; llamado; vino; fue; firmada;
        firmadas; rausgebracht""",
    # Makes what is called done not done.
    "not done": """not; isn't; aren't; wasn't; hasn't; haven't; didn't; don't; won't; can't; will; would;
        should; once; when; if; until; unless; to be; must; needs; need; can; could; before; as soon as;
        let me know; still; almost; nearly; yet; after; might; may; never; nicht; kein; keine; wird; werden;
        sobald; wenn; bis; muss; müssen; soll; noch; fast; pas; jamais; quand; dès que; si; sera; doit; faut;
        encore; presque; cuando; será; debe; hay que; todavía; aún; casi; não; quando; se; deve; ainda; quase;
        まだ; ない; ません; たら; 予定; 没; 沒; 不; 尚未; 如果; 等; 要; 未; لم; لن; لا; عندما; إذا; سوف;
        بعد أن; no está; no he; no se ha; no ha; no hemos; nobody; no one; gotta; gonna; ought; wants;
        waiting; missing; havent; hasnt; isnt; didnt; cant; kann; will ich; sollte; sollten; werde; müsste;
        toujours pas; faudra; devra; devrait; falta; faltan; habrá; tendré; tengo que; tenemos que; tenho que;
        temos que; falta fazer; しないと; なければ; لازم""",
    "change": """now it's; it's now; has been raised; has been lowered; has gone up; went up; went down;
        goes up; goes down; up to now; down to; not any more; make that; slipped to; slipped; brought forward;
        pushed back; shifted to; cut to; grew to; shrank to; ist gestiegen; ist gesunken; vorverlegt; verlegt;
        gekürzt; angehoben; gesenkt; avancé; repoussé; augmenté; réduit; baissé; décalé; finalement;
        se retrasa; se adelanta; ha subido; ha bajado; sube a; baja a; se cambia; aumentou; diminuiu; subiu;
        baixou; passou; 増え; 減り; 早まり; 遅れ; 上げ; 下げ; 提前; 增加到; 减少到; 涨到; 降到; 延后; ارتفع;
        انخفض; تقدم; تأخر; actually; instead; instead of; ^no ,; ^nope; ^correction; ^sorry ,; ^wait ,;
        i meant; scratch that; changed my mind; change; ^make it; ^make that; let's make it; let's make that;
        let's change; let's move; let's switch; update; ^rather; no longer; not anymore; any more; after all;
        has changed; is now; are now; has moved; was moved; moved to; change of plan; change of plans; ^new;
        switch to; switched to; rather than; not but; ^better; on second thought; i was wrong; ^revised;
        has been moved; has been changed; postponed; postponed to; rescheduled; raised to; lowered to;
        increased to; reduced to; extended to; pushed to; bumped to; renamed to; replaced by; replace; ^oops;
        i misspoke; strike that; it turns out; in fact; doch; stattdessen; statt; anstatt; ^nein ,;
        ^korrektur; ändere; ändern; geändert; jetzt doch; nicht mehr; sondern; ist jetzt; beträgt jetzt;
        ist nun; verschoben; ich meinte; Planänderung; eigentlich; erhöht; wechseln zu; jetzt; en fait;
        plutôt; au lieu de; à la place; ^non ,; change le; changez; modifie; ne plus; n'est plus; mais;
        est maintenant; reporté; je voulais dire; désolé; remplace; passe à; maintenant; en realidad; mejor;
        en lugar de; en vez de; cambia; cambiar; cambié de opinión; ya no; sino; ahora es; ahora son;
        aplazado; quise decir; corrección; perdón; mejor dicho; ahora; na verdade; aliás; em vez de;
        ao invés de; mudar; mude; altere; mudei de ideia; não mais; mas sim; agora é; adiado; correção;
        quis dizer; agora; desculpe; trocar; やっぱり; やはり; 代わりに; ではなく; じゃなくて; 変更; 訂正;
        間違え; 今は; 変わりました; 延期; いや; 改成; 改为; 改為; 而不是; 不是; 其实; 其實; 更正; 换成; 換成;
        变成; 现在是; 不再; 推迟; 改到; 错了; 应该是; 算了; في الواقع; بدلا من; بدلا; غير; تغيير; تصحيح;
        لم يعد; أصبح; أصبحت; بل; الآن; قصدت; تأجل; adjourned; adjourned to; up from; down from; brings down;
        bumped; bump it; bump that; bumped up; upped; upped to; up to; raise it; raise that; lower it;
        take it up; take it down; bring it; moved up; pushed again; pushed out; delayed; delayed until;
        delayed to; put up; put back; cut down; we're down to; were down to; we're up to; now at; now looking;
        as of; starting now; effective; stretch to; went from; goes from; turned out to be; more like;
        measured; rather make; rather have; no wait; wait no; ^nah; ^hm no; ^oh no; my mistake; my bad; typo;
        ^edit:; ^update:; correction to; corrected; instead please; from here on; renamed; is called now;
        is taken; swap; swapped; swap out; changed our minds; changed our mind; Korrektur; korrigiert;
        korrigiere; nachgemessen; es waren; es sind jetzt; doch lieber; jetzt nur noch; nur noch;
        mittlerweile; inzwischen; ab sofort; ab jetzt; auf den; aufgestockt; runter auf; rauf auf; hoch auf;
        verlängert bis; umbenannt; Fristverlängerung; baissé à; monte à; montent à; redescend; descend à;
        passe de; on passe; à présent; est avancé; est décalé; est reporté; corrige; correction;
        rectification; en réalité; au final; dorénavant; désormais; bajamos; subimos; bajamos a; subimos a;
        se pasa; pasa a; pasa al; se queda en; ya son; ahora hay; corrijo; rectifico; me equivoqué; al final;
        en vez; se mueve; se aplaza; subió a; bajó a; passa para; passou a; agora são; corrigindo; retifico;
        no fim; aumentei; に変えて; に変更; 変えてください; 直して; 増えました; 減りました; 改一下; 改了;
        变了; 调整为; 涨了; صار; صارت; تغير; عدلنا; بدل; let's say; shrank; shrank it; shrunk; grew; cut that;
        cut it; reduced; doubled; halved; trimmed; upgraded; upgraded to; downgraded; updated to; set it to;
        give it; rutscht; rutscht auf; verrutscht; nach hinten; nach vorne; vorgezogen; it'll be; sind's;
        sinds; on arrive à; arrive à; monte; descend; je passe; on monte; on descend; prórroga; prorrogado;
        después de recortar; recortado; recortamos; ampliado; ampliamos""",
    # Takes a rule back.
    "withdraw": """forget the rule; forget about; forget what i said; forget the; ignore the rule;
        drop the rule; lift the; the rule no longer; doesn't apply anymore; does not apply anymore;
        no longer applies; you can again; you may again; it's fine to; it's ok to; it's okay to; you can now;
        you may now; is allowed again; is allowed now; is fine now; is ok now; is okay now; you're allowed to;
        you are allowed to; cancel the rule; remove the rule; you don't need to anymore; no need to;
        again now; vergiss die Regel; vergiss das mit; die Regel gilt nicht mehr; gilt nicht mehr;
        du darfst wieder; ihr dürft wieder; ist wieder erlaubt; ist jetzt erlaubt; du kannst wieder;
        oublie la règle; oubliez la règle; la règle ne s'applique plus; tu peux de nouveau; tu peux à nouveau;
        vous pouvez de nouveau; olvida la regla; olvídate de; la regla ya no; ya puedes; ya se puede;
        esqueça a regra; a regra não vale mais; já pode; pode voltar a; ルールは忘れて; ルールは無し;
        してもいいです; しても構いません; 忘记规则; 忘了; 不用再; 可以再; 规则取消; 取消规则; انس القاعدة;
        القاعدة لم تعد; يمكنك الآن""",
    "goal": """the goal is; our goal is; my goal is; the aim is; our aim is; the objective is; our objective;
        my objective; new goal; the goal now; ^goal:; das Ziel ist; unser Ziel ist; mein Ziel ist; le but est;
        l'objectif est; notre objectif; mon objectif; el objetivo es; nuestro objetivo; mi objetivo;
        o objetivo é; nosso objetivo; meu objetivo; 目標は; 目的は; 目标是; الهدف هو; هدفنا; هدفي""",
    # A goal only at the beginning of a conversation.
    "wish": """^i'm doing; ^i am doing; ^i'm writing; ^i am writing; ^we're writing; ^i'm preparing;
        ^i'm organizing; ^i'm organising; are planning a; are planning to; am planning to; and i are planning;
        ^i want to; ^we want to; ^i need to; ^we need to; ^i'd like to; ^i would like to; ^we'd like to;
        ^we would like to; ^help me; ^please help me; ^i'm building; ^i am building; ^we're building;
        ^we are building; ^i'm planning; ^we're planning; ^we are planning; ^i am planning; ^i'm trying to;
        ^we're trying to; ^i'm working on; ^we're working on; ^we are migrating; ^we're migrating;
        ^i want you to; ^i need you to; ^can you help me; ^could you help me; ^i plan to; ^ich möchte;
        ^ich will; ^wir wollen; ^wir möchten; ^hilf mir; ^wir planen; ^ich plane; ^ich brauche hilfe;
        ^wir bauen; ^je veux; ^je voudrais; ^j'aimerais; ^nous voulons; ^aide-moi; ^aidez-moi; ^on veut;
        ^nous aimerions; ^quiero; ^queremos; ^necesito; ^necesitamos; ^ayúdame; ^me gustaría; ^quero;
        ^preciso; ^precisamos; ^me ajude; ^gostaria de; したいです; たいです; 作りたい; したい; 我想; 我要;
        我们想; 我们要; 帮我; 我需要; أريد أن; نريد أن; أريد; ساعدني""",
    # What an assistant calls decided.
    "agreement": """as agreed; we agreed; we decided; we've decided; we have decided; decision:;
        the decision is; agreed:; agreed to; agreed on; it's decided; wie vereinbart; wir haben entschieden;
        Entscheidung:; comme convenu; décision:; nous avons décidé; como acordamos; decisión:;
        conforme combinado; decisão:; hemos decidido; に決定; 決定しました; 我们决定; اتفقنا; قررنا""",
    # Says a value without naming an attribute.
    "value": """we fly; we land; we now land; i land; we arrive; i arrive; landing at; we depart; i fly;
        call me; my name's; i live in; i work at; i work for; i'm based in; we're based in; we are based in;
        of us; i was born; i'm from; i weigh; i'm turning; set to; is called; are called; we use; we run;
        runs on port; listens on; i go by; we fly to; we fly from; we leave on; we arrive on; i leave on;
        we're flying; you can reach me; my kids are; is due; are due; nenn mich; ich heiße; ich wohne in;
        ich arbeite bei; wir sind zu; wir fliegen nach; wir benutzen; je m'appelle; appelle-moi; appelez-moi;
        j'habite; je travaille chez; nous sommes; me llamo; llámame; vivo en; trabajo en; somos; me chamo;
        me chame de; moro em; trabalho na; trabalho no; と呼んで; に住んで; といいます; と申します; 叫我;
        我叫; 我住在; 我在; اسمي; نادني; أسكن في; أعمل في; stand at; stands at; sits at; is at; goes up to;
        comes to; amounts to; adds up to; totals; costs; is listed for; listed for; is scheduled for;
        is planned for; lives in; live in; is under; kostet; liegt bei; beläuft sich; beläuft; gültig bis;
        gilt bis; gilt jetzt; coûte; s'élève; revient à; il prend; elle prend; commence par; cuesta; sale a;
        nos sale; asciende a; toma; custa; fica em; sai por; 花了; 要花; يكلف; عدد""",
    # How many there are.
    "amount": """we have; we've got; we are at; we're at; we expect; there will be; there are now;
        final count; wir haben; wir sind; es sind; sind es; on a; nous avons; nous serons; on sera; tenemos;
        seremos; somos; hay ahora; temos; teremos; 我们有; 一共; لدينا; سنكون; there's now; there are;
        it takes; should take; give it; give them; start with; scale to; es gibt; ich war; im ganzen; il y a;
        on est; nous sommes; de momento hay; hay; son; ya son; há; são""",
    # A decision only where something is corrected or assigned.
    "choice": "^let's; ^use; lass uns; ^utilise; ^usa; ^usar",
    # Choosing one thing over another.
    "contrast": """instead of; rather than; statt; anstatt; anstelle von; au lieu de; plutôt que;
        à la place de; en vez de; en lugar de; em vez de; ao invés de; no lugar de; ではなく; の代わりに;
        而不是; 代替; بدلا من""",
    # Something that is said lest it be forgotten.
    "memory": """before i forget; bevor ich es vergesse; avant que j'oublie; antes de que se me olvide""",
    # A question, also without its mark.
    "question": """^what; ^what's; ^whats; ^why; ^how; ^who; ^whose; ^where; ^which; ^is there; ^are there;
        ^is it; ^is that; ^is the; ^does; ^do they; ^do you; ^do we; ^did; ^was the; ^any news; ^any idea;
        ^has anyone; ^have you; ^was; ^wie; ^warum; ^wieso; ^wer; ^wo; ^welche; ^welcher; ^welches; ^gibt es;
        ^passt das; ^ist das; ^hast du; ^pourquoi; ^combien; ^comment; ^qui; ^quel; ^quelle; ^quels;
        ^est-ce que; ^qu'est-ce; ^où; ^c'est quoi; ^y a-t-il; ^qué; ^por qué; ^cómo; ^cuánto; ^cuánta;
        ^cuántos; ^cuántas; ^quién; ^dónde; ^cuál; ^por que; ^quanto; ^quantos; ^quem; ^onde; ^qual;
        ^será que; ^なぜ; ^どうして; ^どう; ^何; ^いつ; ですか; ますか; でしょうか; ^为什么; ^怎么; ^什么;
        ^谁; ^哪; ^多少; 吗; ^هل; ^لماذا; ^كم; ^ما هو; ^ما هي; ^من هو; ^أين; ^متى; ^كيف; ^are you; ^can i;
        ^anyone know; ^does anyone; ^do i; ^am i; ^isn't; ^aren't; ^shouldn't; ^weißt du; ^hat jemand;
        ^sind das; ^sais-tu; ^tu sais; ^il fait quel; ^sabes; ^alguien sabe; ^você sabe; ^a qué""",
    # What follows from what was said before: "then keep it at 26".
    "conclusion": """^then; then; dann; alors; du coup; entonces; então; では; じゃあ; 那; 那么; إذن""",
    # A choice between things, in a question.
    "alternative": """or; which; which one; who should; what do we do; what should we; oder; welche; welcher;
        welches; was machen wir; ou; lequel; laquelle; que fait-on; qu'est-ce qu'on fait; o; u; cuál;
        qué hacemos; qual; o que fazemos; それとも; または; どちら; どっち; 还是; 或者; 哪个; أم; أو; أي""",
    # Puts off what the other one said.
    "defer": """get back to this; get back to that; get back to it; come back to it; come back to this;
        come back to that; back to this; leave that for; leave it for; leave this for; leave that; park that;
        park it; another time; do it later; look at it later; look at that later; fix it later;
        fix that later; let me know; keep me posted; darauf zurück; das machen wir später; lassen wir erstmal;
        lassen wir erst mal; sag Bescheid; gib Bescheid; on verra plus tard; on y reviendra; laisse ça pour;
        tiens-moi au courant; lo dejamos para; lo vemos luego; deja eso para; ya me dices; avísame;
        volvemos a esto; voltamos a isso; deixa isso para; deixe isso para; me avise; 後で考え; また今度;
        連絡ください; 以后再说; 回头再说; 之后再看; 告诉我一声; لنعد إليه; نؤجله; أخبرني; let me ask;
        let me check; let me think about; i'll ask; i'll check; i'll get to it; i'll find out;
        i'll look into it; get to it; next sprint; next week; next month; muss ich fragen; frag ich nach;
        kläre ich; schau ich mir an; je vais voir; je me renseigne; lo miro; lo pregunto; ya lo miraré;
        vou ver; 確認します; 我问问; سأسأل""",
    # An assistant takes something on its list.
    "ack open": """put it on the list; put that on the list; add that to the list; on the to-do list;
        on the todo list; on the list; to the list; on my list; my list; remind you; i'll remind; as a to-do;
        as a todo; keep it open; stays open; leave it open; leave it for later; keep it in mind;
        keep that in mind; keep looking; i'd do it this month; auf die Liste; auf der Liste; erinnere dich;
        erinnere sie; schreibe es auf; ist vorgemerkt; bleibt offen; lasse ich offen; à la liste;
        sur la liste; rappellerai; le rappelle; en suspens; je le note; lo apunto; la dejo apuntada;
        lo dejo apuntado; me lo apunto; a la lista; en la lista; te lo recuerdo; te recordaré; na lista;
        à lista; vou lembrar; eu lembro; fica em aberto; 覚えておきます; リマインドします; リストに;
        思い出させ; 记下了; 会提醒; 列入; 加到清单; سأذكرك; أضفتها إلى القائمة; في القائمة; إلى القائمة""",
    # An assistant has taken note of what it is told.
    "ack note": """^understood; ^got it; ^noted; ^makes sense; ^clear; ^will do; ^of course; ^fair; ^agreed;
        ^good to know; ^thanks for telling; ^saved; ^right; ^you're right; ^clearly; ^that's clear;
        ^good choice; ^great choice; ^lovely choice; ^nice choice; ^wise choice; ^good call; ^verstanden;
        ^notiert; ist notiert; ist vermerkt; ^alles klar; ^gern; ^gerne; ^selbstverständlich; ^gute Wahl;
        ^gute Entscheidung; ^gemerkt; ^d'accord; ^c'est noté; ^noté; ^bien noté; ^compris; ^entendu;
        ^bon choix; ^c'est clair; ^entendido; ^de acuerdo; ^claro; ^anotado; ^buena elección; ^tomo nota;
        ^entendi; ^certo; ^combinado; ^boa escolha; ^承知; ^かしこまり; ^了解; ^分かりました; ^わかりました;
        ^登録しました; ^良い案; ^明白; ^收到; ^知道了; ^记住了; ^好选择; ^مفهوم; ^فهمت; ^سجلت; ^اختيار جيد""",
    # The same of a figure: such words say little else.
    "ack figure": """^ok; ^okay; ^sure; ^done; ^updated; ^updating; ^changed; ^applied; ^set; ^adjusted;
        ^great; ^nice; ^perfect; ^good; ^thanks; ^thank you; ^fine; ^well done; ^locked in; ^moved; ^saved;
        ^no problem; ^switched; ^i'll shift; ^i'll adjust; ^plenty of time; ^gut; ^geändert; ^angepasst;
        ^ist angepasst; ^passt; ^super; ^danke; ^umso besser; ^prima; ^parfait; ^très bien; ^merci;
        ^je décale; ^modifié; ^pas de souci; ^bien; ^vale; ^perfecto; ^gracias; ^cambiado; ^actualizado;
        ^lo cambio; ^hecho; ^feito; ^ótimo; ^obrigado; ^alterado; ^atualizado; ^はい; ^変更しました;
        ^更新しました; ^好的; ^好; ^已更改; ^已更新; ^改好了; ^حسنا; ^تمام; ^تم; ^شكرا""",
    # A question that is a request.
    "request": """^can you; ^could you; ^would you; ^will you; ^can we; ^could we; ^please; ^kannst du;
        ^könntest du; ^können sie; ^können wir; ^könnten sie; ^peux-tu; ^pouvez-vous; ^pourrais-tu;
        ^pourriez-vous; ^puedes; ^podrías; ^puede; ^podría; ^pode; ^poderia; ^você pode; ください;
        もらえますか; くれますか; 能不能; 可以; 请; 能否; هل يمكنك; من فضلك; ^could somebody; ^would somebody;
        ^could someone; ^can someone; ^can somebody; ^magst du; ^würdest du; ^tu peux; ^tu pourrais;
        ^vous pouvez; ^me puedes""",
    # Something to do at once, which leaves nothing behind.
    "task": """^show me; ^show; ^find me; ^find; ^look up; ^look at; ^look for; ^lets look; ^let's look;
        ^let's see; ^search; ^explain; ^count; ^compare; ^summarise; ^summarize; ^translate; ^describe;
        ^tell me; ^give me; ^make a; ^make me; ^draw; ^plot; ^write a; ^write me; ^draft; ^check; ^shorten;
        ^pls; ^run the; ^try again; ^list; ^zeig; ^zeige; ^such; ^suche; ^erklär; ^erkläre; ^schau;
        ^vergleich; ^vergleiche; ^schreib; ^schreibe; ^prüf; ^prüfe; ^montre; ^montre-moi; ^cherche;
        ^cherche-moi; ^explique; ^explique-moi; ^regarde; ^écris; ^vérifie; ^muéstrame; ^busca; ^búscame;
        ^explica; ^explícame; ^mira; ^escribe; ^comprueba; ^mostra; ^mostre; ^procura; ^procure; ^escreve;
        ^escreva; ^veja; 見せて; 探して; 調べて; 説明して; 教えて; 给我看; 找一下; 查一下; 解释; 看看; اعرض;
        ابحث; اشرح; أرني""",
    "later": """sometime; some day; at some stage; irgendwann; bei Gelegenheit; un jour; à l'occasion;
        algún día; en algún momento; em algum momento; um dia; いつか; そのうち; 改天; 有空; يوما ما; later;
        afterwards; at some point; später; nachher; plus tard; luego; más tarde; depois; mais tarde; 后で;
        後で; 稍后; 回头; لاحقا""",
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
        just wondering; just curious; just a thought; just an idea; idk; we'll see; haha; nur so als Frage;
        nur eine Frage; nur so ein Gedanke; mal sehen; juste une idée; juste une question; on verra;
        solo una idea; solo una pregunta; ya veremos; só uma ideia; só uma pergunta; vamos ver;
        聞いてみただけ; 随便问问; 只是问问; مجرد سؤال; سنرى; what if; suppose; supposing; imagine;
        hypothetically; would have; for example; for instance; e.g; maybe; perhaps; i think we could;
        not sure; should we; should i; i wonder; might; could be; i guess; thinking about; thinking of;
        considering; if i decided; if we decided; had we; was wäre wenn; angenommen; zum Beispiel; vielleicht;
        eventuell; könnte; ich überlege; peut-être; par exemple; supposons; imaginons; je me demande; quizás;
        tal vez; por ejemplo; supongamos; a lo mejor; talvez; por exemplo; suponha; 例えば; たとえば;
        もしかして; かもしれない; 也许; 可能; 比如; 例如; 假如; 假设; 或许; ربما; مثلا; لنفترض""",
    "report": """says never; says always; says don't; says not to; says you should; tells me never;
        tells me always; sagt immer; sagt man soll; dit toujours; dit jamais; dice siempre; dice que;
        diz sempre; diz que; he said; she said; they said; the docs say; docs say; the article says;
        according to; it says; he told; she told; they told; said that; they claim; the error says;
        the message says; the log says; the manual says; er sagte; sie sagte; laut; sie sagten; il a dit;
        elle a dit; selon; dijo que; según; disse que; segundo o; と言っていました; によると; 他说; 她说;
        根据; قال; وفقا""",
    "proposal": """i suggest; i recommend; i propose; i'd suggest; i'd recommend; i would suggest;
        i would recommend; i'd go with; my proposal; my recommendation; my suggestion; i'd propose; how about;
        proposal:; recommendation:; we could; shall we; suggested plan:; ich schlage vor; ich empfehle;
        mein Vorschlag; ich würde vorschlagen; wie wäre es; Vorschlag:; je propose; je suggère; je recommande;
        je vous propose; je te propose; ma recommandation; proposition:; sugiero; propongo; recomiendo;
        te propongo; mi propuesta; propuesta:; sugiro; proponho; recomendo; minha proposta; proposta:; を提案;
        をお勧め; おすすめ; はいかがでしょう; 我建议; 建议; 我推荐; 推荐; أقترح; أنصح; اقتراحي""",
    "accept": """^yes; ^yep; ^yeah; ^sure; ^ok; ^okay; ^sounds good; ^sounds great; ^perfect; ^go ahead;
        ^do that; ^do it; ^let's do that; ^let's do it; ^agreed; ^deal; ^fine; ^good idea; ^great idea;
        ^works for me; ^i agree; ^accepted; ^approved; ^that works; ^great , do; ^great , let's; ^go for it;
        ^make it so; ^alright; ^ja; ^einverstanden; ^klingt gut; ^mach das; ^machen wir; ^gut; ^passt; ^genau;
        ^oui; ^d'accord; ^parfait; ^très bien; ^vas-y; ^allez-y; ^ça marche; ^bonne idée; ^sí; ^vale;
        ^de acuerdo; ^perfecto; ^adelante; ^hazlo; ^me parece bien; ^sim; ^combinado; ^perfeito; ^pode ser;
        ^de acordo; ^faça isso; ^ótimo; ^はい; ^それで; ^お願いします; ^いいですね; ^了解; ^そうしましょう;
        ^好; ^好的; ^可以; ^同意; ^行; ^没问题; ^就这样; ^نعم; ^موافق; ^حسنا; ^تمام""",
    "refuse": """but; however; no; not; don't; wait; nicht; aber; nein; non; mais; pas; pero; mas; não; でも;
        但; 不; لكن; لا""",
    "artifact": """i've booked; i booked; booked; i've created; i created; created; i've committed; committed;
        i've opened; i opened; opened; i've ordered; ordered; i've reserved; reserved; i've deployed;
        deployed; i've published; published; i've merged; merged; i've sent; i've filed; filed;
        i've scheduled; scheduled; i've pushed; pushed; i've submitted; submitted; i've saved; saved; wrote;
        written; confirmation number; booking reference; booking code; reservation number; order number;
        ticket number; tracking number; invoice number; reference number; case number; uploaded; registered;
        released; confirmed; placed; gebucht; erstellt; angelegt; reserviert; bestellt; Buchungsnummer;
        Bestellnummer; Auftragsnummer; Buchungscode; committet; réservé; réservée; créé; créée; commandé;
        numéro de commande; numéro de réservation; numéro de confirmation; reservado; reservada; creado;
        creada; número de pedido; número de reserva; código de reserva; he reservado; he creado; criado;
        criada; reservei; criei; número do pedido; 予約番号; 注文番号; 予約しました; 作成しました; 预订号;
        订单号; 已预订; 已创建; 预订成功; رقم الحجز; رقم الطلب; تم الحجز; تم إنشاء""",
    "lead": """before i forget; before i forget that; bevor ich es vergesse; avant que j'oublie;
        antes de que se me olvide; sorry , one more; one more; one more thing; quick question; quick thing;
        while you're at it; while you're in there; while you are at it; hey; hm; hmm; ugh; ok; okay; ok so;
        kurze Frage; sag mal; ach ja; petite question; dis; bon; oye; una cosa; una pregunta; uma coisa;
        good news; bad news; great news; gute Nachricht; schlechte Nachricht; bonne nouvelle;
        mauvaise nouvelle; ちなみに; 对了; 顺便; so; please; also; and; oh; btw; by the way; bitte; auch; und;
        übrigens; s'il te plaît; aussi; et; au fait; por favor; también; y; além disso; também; e; por cierto;
        あと; それと; 请; 另外; 还有; من فضلك; أيضا""",
    "none": """before i forget; bevor ich es vergesse; avant que j'oublie; antes de que se me olvide;
        sorry , one more; if possible; wenn möglich; falls möglich; si possible; si es posible; se possível;
        must be somewhere; must be something; must be someone; must be because; must be the; must be a;
        must be in; must come from; must be from; ich vergesse immer; ich verwechsle immer;
        ich verliere immer; j'oublie toujours; je confonds toujours; je perds toujours; siempre se me;
        siempre me olvido; siempre confundo; sempre me esqueço; sempre esqueço; sempre confundo; いつも忘れ;
        忘れてしま; 忘れてしまい; 我总是忘; 总是忘记; 老是忘; أنسى دائما; أخلط دائما; leave that; leave this;
        forget it; forget that; todo comments; todo comment; todo list; todo app; weiß ich noch nicht;
        weiß noch nicht; i don't know yet; not sure yet; whenever you can; whenever you want;
        whenever you like; whenever you have; it never; never worked; never got; never understood;
        never really; never mind; nevermind; as always; has never; have never; had never; i've never;
        never been; never heard; never seen; never had; is always; are always; was always; i'm always;
        it always; must have been; must have had; must have gone; must be kidding; don't worry; don't know;
        don't think; don't bother; don't mind; don't you; don't see; don't understand; don't get it;
        don't have; i don't know; i don't think; i don't see; i don't understand; i don't get; i don't have;
        i don't need; i don't remember; you don't have to; you don't need to; you don't say; do not know;
        do not think; no problem; no thanks; no worries; no idea; no way; no need; no one; no doubt;
        no wonder; no rush; no matter; no luck; no clue; no momento; only if; only one; if only; not only;
        we don't know; we don't need; keep going; keep in mind; keep it up; keep me posted; keep up; leave it;
        every time; i like it; i like that; i like this; i like the; i like how; i like your; i like these;
        i like those; i like them; i like where; i love it; i love that; i love this; i love the; i love how;
        i love your; i really like it; i really like that; i really like this; i really like the;
        i would like to know; i'd like to know; i'd like to see; i would like to see; i want to see;
        i want to know; i need to know; i need to see; i need to check; i need to think; i need to go;
        i want to understand; i'd like to understand; i would like to understand; i want to ask;
        i'd like to ask; i would like to ask; i want to thank; let's see; let's try; let's look;
        let's continue; let's start; let's go; let's do this; let's move on; must say; at least; may not be;
        always fails; always crashes; always returns; always has; always works; as soon as; whatever;
        no longer sure; the only; an only; not yet sure; at most times; i always wondered; i always forget;
        always good; always nice; always a; always happy; for ever; pending review of; ich weiß nicht;
        immer noch; schon immer; nie mehr gesehen; wie immer; noch nicht sicher; nicht immer; immer wieder;
        ich möchte wissen; toujours pas; comme toujours; jamais vu; je veux savoir; je voudrais savoir;
        como siempre; siempre falla; nunca he; quiero saber; me gusta esto; me gusta la idea; como sempre;
        sempre falha; nunca vi; quero saber; prefiro saber; いつもありがとう; いつもお世話; まだです;
        また後で; 好きにして; 不要紧; 不要緊; 不要担心; 我喜欢这个; 我想知道; 我要看; 我想问; 我想看; أحب هذا;
        لا أعرف; nothing changed; nothing happened; nothing new; nothing else; nothing special; nobody knows;
        nobody cares; no one knows; nobody picks; nobody likes; no one likes; nothing wrong; nothing works;
        can't find; can't see; can't remember; cannot find; can't open; can't wait; i've got to admit;
        i have to admit; i must admit; got to love; got to go; gotta go; gotta run; gotta love;
        we need to talk; there are no words; there are no results; needs to know; is in the; is up to;
        are in the; is in a; up to you; up to date; up to speed; rien à voir; rien de grave; rien de spécial;
        nada más; nada que ver; de nada; para nada; hay que ver; et voilà; ¿verdad; not important; no hurry;
        忘れてし; 名前を忘れ; what we; what i; i should know; i should have; we should have; should have;
        não sei; não lembro; não entendo; não tenho certeza; i need help; i need your; i need you; under the;
        under a; under my; under our; below the; لا أدري; لا بأس; لا شكر; we never heard of; لا داعي;
        nichts zu tun; keine Eile; rien d'urgent; nada urgente""",
}
